"""Which disks of a server raise an alarm, and what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.core.alarms.alarm import AlarmRules, Kind
from ec2spawner.core.alarms.disk_rules import ServerDisks, disks_nearly_full
from ec2spawner.wire import DiskUse

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
RULES = AlarmRules()


def alarms(*disks: DiskUse, server: str = "", rules: AlarmRules = RULES) -> list[str]:
    found = disks_nearly_full(ServerDisks("lease-1", "ann", server, disks), rules, NOW)
    assert all(each.kind is Kind.FULL_DISK for each in found)
    assert len({each.alarm_id for each in found}) == len(found)
    return [each.title for each in found]


@pytest.mark.parametrize(
    ("used", "inodes", "is_reported"),
    [(90, 0, True), (89.9, 89.9, False), (10, 90, True), (90, None, True), (89, None, False)],
)
def test_space_and_inodes_count(used: float, inodes: float | None, is_reported: bool) -> None:
    disk = DiskUse(kind="home", used_percent=used, inodes_percent=inodes)
    assert bool(alarms(disk)) is is_reported
    assert alarms(disk, rules=AlarmRules(disk_used=100)) == []


@pytest.mark.parametrize(
    ("kind", "free_gib", "is_reported"),
    [("home", 9, True), ("home", 11, False), ("system", 1, True), ("system", 3, False)],
)
def test_a_large_disk_with_room_is_not_reported(
    kind: Any, free_gib: int, is_reported: bool
) -> None:
    disk = DiskUse(kind=kind, used_percent=95, free_bytes=free_gib * 2**30)
    assert bool(alarms(disk)) is is_reported


def test_each_kind_of_disk_is_reported_once_and_a_data_set_never() -> None:
    home = DiskUse(kind="home", used_percent=95)
    scratch = DiskUse(kind="scratch", path="/scratch", used_percent=99)
    data = DiskUse(kind="data", path="/data/x", used_percent=100, is_writable=False)
    assert alarms(home, home, scratch, data, server="lab") == [
        "The home of ann/lab is 95 % full",
        "The disk /scratch of ann/lab is 99 % full",
    ]


def test_what_an_instance_says_of_itself_is_made_visible() -> None:
    [title] = alarms(DiskUse(kind="scratch", path="/\u202e\x1b[31m", used_percent=95))
    assert title.isprintable()

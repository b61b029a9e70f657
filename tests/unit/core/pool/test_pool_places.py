"""In which zones places are, and which instances nobody took."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.alarms.alarm import Kind
from ec2spawner.core.alarms.pool_rules import pool_unused
from ec2spawner.core.pool.unused import Unused, Waiting, unused
from ec2spawner.core.pool.zones import ANY, by_zone

NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
DAY = 86400.0


@pytest.mark.parametrize(
    ("running", "homes", "expected"),
    [
        (4, {}, {ANY: 4}),
        (0, {}, {}),
        (4, {"a": 0, "b": 0}, {ANY: 4}),
        (4, {"a": 30, "b": 10}, {"a": 3, "b": 1}),
        (3, {"a": 30, "b": 10, "c": 1}, {"a": 2, "b": 1}),
        (1, {"a": 5, "b": 5}, {"a": 1}),
        (2, {"a": 1, "b": 3}, {"b": 2}),
        (5, {"b": 6, "a": 6, ANY: 3}, {"a": 2, "b": 2, ANY: 1}),
    ],
)
def test_places_follow_homes(
    running: int, homes: Mapping[str, int], expected: Mapping[str, int]
) -> None:
    assert by_zone(running, homes) == expected


zones = st.dictionaries(st.sampled_from(["a", "b", "c", "d", ANY]), st.integers(0, 200))


@given(st.integers(0, 1000), zones)
def test_zones_sum_to_the_target_and_none_is_off_by_a_place(
    running: int, homes: Mapping[str, int]
) -> None:
    found, total = by_zone(running, homes), sum(homes.values())
    assert sum(found.values()) == running
    assert found == by_zone(running, dict(reversed(list(homes.items()))))
    if total:
        assert all(
            abs(found.get(zone, 0) - running * number / total) < 1 for zone, number in homes.items()
        )


def waiting(name: str, hours: float, profile: str = "t4") -> Waiting:
    return Waiting(name, profile, NOW - timedelta(hours=hours))


def test_what_waited_for_a_day_is_reported_by_profile() -> None:
    found = unused(
        [waiting("i-1", 24), waiting("i-2", 30), waiting("i-3", 23.9), waiting("i-4", 25, "a10g")],
        DAY,
        NOW,
    )
    assert found == (
        Unused("a10g", ("i-4",), 25 * 3600),
        Unused("t4", ("i-2", "i-1"), 30 * 3600),
    )


def test_the_alarm_says_what_waits_what_it_costs_and_what_to_change() -> None:
    alarm = pool_unused(Unused("t4", ("i-2", "i-1"), 30 * 3600), 0.4, NOW)
    assert alarm.kind is Kind.POOL_UNUSED
    assert "2 instances" in alarm.title
    assert "0.40 USD/hour (estimate)" in alarm.body
    assert "1 day 6 hours: i-2, i-1." in alarm.body
    assert "c.EC2Spawner.warm_pool" in alarm.body


def test_the_alarm_is_sent_once_a_day_and_says_that_a_price_is_unknown() -> None:
    one = Unused("t4", ("i-1",), DAY)
    ids = {pool_unused(one, None, NOW + timedelta(hours=hour)).alarm_id for hour in range(16)}
    assert len(ids) == 1
    assert "unknown price" in pool_unused(one, None, NOW).body


def test_a_large_pool_does_not_make_a_long_message() -> None:
    many = Unused("t4", tuple(f"i-{number}" for number in range(200)), DAY)
    body = pool_unused(many, 20.0, NOW).body
    assert "i-9 and 190 more." in body
    assert "i-10," not in body

"""`ec2spawner report --starts`: its request, and the values in each of its forms."""

from __future__ import annotations

import argparse
import csv
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from rich.console import Console

from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.core.starts.phases import Phase
from ec2spawner.core.starts.summary import MeasuredStart, summary
from ec2spawner.provisioner.store.read_only import SlowStart
from ec2spawner.report.request import WrongRequest, scope_of
from ec2spawner.report.starts.contents import StartReport, StartScope, start_scope_of
from ec2spawner.report.starts.forms import starts_csv, starts_json
from ec2spawner.report.starts.table import print_starts

TODAY = date(2026, 11, 24)
NOW = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)


def start(number: int, boot: float, lost: float = 0.0) -> MeasuredStart:
    times = {Phase.QUEUE: 2.0 + lost, Phase.BOOT: boot, Phase.ROUTE: 0.5}
    seconds = tuple(times.get(phase) for phase in Phase)
    total = sum(times.values())
    return MeasuredStart(f"lease-{number}", "t4", "spot", Outcome.READY, total, lost, seconds)


def report() -> StartReport:
    failed = MeasuredStart("lease-9", "t4", "spot", Outcome.CANCELLED, 5.0, 0.0, (None,) * 10)
    found = summary([start(1, 20.0), start(2, 40.0, lost=60.0), failed], slowest=1)
    slowest = [SlowStart(each, NOW, "ada", "=cmd", "i-1") for each in found.slowest]
    scope = StartScope("hub", date(2026, 11, 18), TODAY, "Europe/Berlin")
    return StartReport(scope, NOW, found.groups, slowest)


def arguments(**given: Any) -> argparse.Namespace:
    flags = dict.fromkeys(("reconcile", "reservations", "html", "focus", "csv"), False)
    texts = dict.fromkeys(("since", "until", "user", "bill", "profile"), "")
    return argparse.Namespace(**{**flags, **texts, "by": "user", **given})


def test_the_period_is_a_week_in_the_hub_s_time_zone() -> None:
    scope = start_scope_of(arguments(profile="t4"), "hub", "Europe/Berlin", TODAY)
    assert (scope.since, scope.until, scope.profile) == (date(2026, 11, 18), TODAY, "t4")
    assert scope.begin == datetime(2026, 11, 17, 23, tzinfo=UTC)
    assert scope.end == datetime(2026, 11, 24, 23, tzinfo=UTC)
    earlier = arguments(since="2026-10-01", until="2026-10-31")
    assert start_scope_of(earlier, "hub", "UTC", TODAY).since == date(2026, 10, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "ada"}, "--user is for costs. Fix: leave it or --starts out"),
        ({"html": True}, "--html is for costs. Fix: leave it or --starts out"),
        (
            {"by": "day"},
            "--starts always groups by profile and market. Fix: leave --by out",
        ),
        (
            {"since": "2026-11-20", "until": "2026-11-01"},
            "--from=2026-11-20 is after --to=2026-11-01. Fix: exchange them",
        ),
    ],
)
def test_what_a_report_on_starts_cannot_answer(given: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongRequest) as refused:
        start_scope_of(arguments(**given), "hub", "UTC", TODAY)
    assert str(refused.value) == said


def test_a_report_on_costs_has_no_profile() -> None:
    with pytest.raises(WrongRequest, match=r"--profile is for --starts. Fix: add --starts"):
        scope_of(arguments(profile="t4"), "hub", "UTC", TODAY)


def test_json_has_every_value() -> None:
    found = json.loads(starts_json(report()))
    assert (found["hub"], found["from"], found["to"]) == ("hub", "2026-11-18", "2026-11-24")
    [group] = found["groups"]
    assert (group["profile"], group["market"], group["starts"]) == ("t4", "spot", 3)
    assert group["outcomes"] == {"ready": 2, "cancelled": 1}
    assert (group["replaced"], group["dominant"]) == (1, "queue")
    assert group["total"] == {"starts": 2, "median_s": 62.5, "p95_s": 98.5}
    boot = {"starts": 2, "median_s": 30.0, "p95_s": 39.0, "share": 0.48}
    assert group["phases"]["boot"] == boot
    [slow] = found["slowest"]
    assert (slow["total_s"], slow["lost_s"], slow["user"]) == (102.5, 60.0, "ada")
    assert slow["phases"] == {"queue": 62.0, "boot": 40.0, "route": 0.5}


def test_csv_has_a_line_for_each_phase() -> None:
    rows = list(csv.DictReader(io.StringIO(starts_csv(report()))))
    assert [row["phase"] for row in rows] == ["total", "queue", "boot", "route"]
    assert rows[0] == {
        "profile": "t4",
        "market": "spot",
        "phase": "total",
        "starts": "2",
        "median_s": "62.5",
        "p95_s": "98.5",
        "share": "1.0",
    }


def printed(report: StartReport) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_starts(report, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_table_names_the_phase_that_takes_the_time() -> None:
    text = printed(report())
    assert ["boot", "30.0", "s", "39.0", "s", "48", "%", "2"] in [
        line.split() for line in text.splitlines()
    ]
    assert (
        "t4, spot: 3 starts, 2 ready, 1 cancelled; queue takes 51 % of the time; 1 lost an "
        "instance first" in text
    )
    assert "2026-11-24 09:00 UTC  102 s  ada/=cmd, t4, spot, i-1: queue 62.0 s, boot 40.0 s" in text
    assert "of that 60.0 s for instances that were lost" in text


def test_the_table_has_the_names_that_users_know() -> None:
    named = replace(report(), profile_names={"t4": "T4, 16 GB"})
    assert "T4, 16 GB (t4), spot: 3 starts" in printed(named)


def test_a_period_without_starts_says_so() -> None:
    nothing = StartReport(report().scope, NOW, (), ())
    assert "No start was measured in this period." in printed(nothing)

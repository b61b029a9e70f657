"""A report on starts as JSON and as CSV. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ...core.starts.phases import Phase
from ...core.starts.summary import Distribution, GroupOfStarts
from ...core.text.delimited import Cell, delimited
from ...provisioner.store.read_only import SlowStart
from .contents import StartReport

COLUMNS: Final = ("profile", "market", "phase", "starts", "median_s", "p95_s", "share")

TOTAL: Final = "total"


def starts_json(report: StartReport) -> str:
    """One line. Durations in seconds, `share` between 0 and 1; what is not known is null."""
    scope = report.scope
    return json.dumps(
        {
            "hub": scope.hub,
            "from": scope.since.isoformat(),
            "to": scope.until.isoformat(),
            "time_zone": scope.time_zone,
            "profile": scope.profile or None,
            "made_at": report.made_at.isoformat(),
            "groups": [_group(each) for each in report.groups],
            "slowest": [_slow(each) for each in report.slowest],
        }
    )


def starts_csv(report: StartReport) -> str:
    """A line for the total and one for each phase of each group, of starts that were ready."""
    return delimited(COLUMNS, [row for group in report.groups for row in _rows(group)])


def _rows(group: GroupOfStarts) -> list[list[Cell]]:
    named: list[Cell] = [group.profile, group.market]
    rows = [] if group.total is None else [[*named, TOTAL, *_cells(group.total), 1.0]]
    for phase, found in group.phases.items():
        rows.append([*named, phase.value, *_cells(found), round(group.share(phase), 4)])
    return rows


def _cells(found: Distribution) -> list[Cell]:
    return [found.count, round(found.median, 3), round(found.p95, 3)]


def _group(group: GroupOfStarts) -> Mapping[str, Any]:
    return {
        "profile": group.profile,
        "market": group.market or None,
        "starts": group.count,
        "outcomes": {outcome.value: count for outcome, count in group.outcomes.items()},
        "replaced": group.replaced,
        "total": group.total and _distribution(group.total),
        "phases": {
            phase.value: {**_distribution(found), "share": round(group.share(phase), 4)}
            for phase, found in group.phases.items()
        },
        "dominant": group.dominant,
    }


def _distribution(found: Distribution) -> Mapping[str, Any]:
    return {
        "starts": found.count,
        "median_s": round(found.median, 3),
        "p95_s": round(found.p95, 3),
    }


def _slow(slow: SlowStart) -> Mapping[str, Any]:
    start = slow.start
    seconds = zip(Phase, start.seconds, strict=True)
    return {
        "requested_at": slow.requested_at.isoformat(),
        "lease_id": start.lease_id,
        "user": slow.user,
        "server": slow.server,
        "profile": start.profile,
        "market": start.market or None,
        "instance_id": slow.instance_id,
        "total_s": round(start.total, 3),
        "lost_s": round(start.lost, 3),
        "phases": {phase.value: round(each, 3) for phase, each in seconds if each is not None},
    }

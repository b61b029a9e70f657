"""The replay of spot availability in virtual time, and the table that it makes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.traces import (
    DAY,
    PAGE,
    PEOPLE,
    POLICIES,
    REDO,
    START,
    WAKE,
    Policy,
    Trace,
    Zone,
    page_with,
    recorded,
    replay,
    synthetic,
    table,
)

ALWAYS = Zone(())
MORNING = 600.0


@st.composite
def zones(draw: st.DrawFn) -> Zone:
    instants = draw(st.lists(st.integers(0, 3 * DAY), unique=True, max_size=20).map(sorted))
    pairs = zip(instants[::2], instants[1::2], strict=False)
    return Zone(tuple((float(begin), float(end)) for begin, end in pairs))


@given(zones(), st.floats(0, 3 * DAY))
def test_a_zone_is_read_as_its_intervals_say(zone: Zone, at: float) -> None:
    assert zone.is_there(at) == (not any(b <= at < e for b, e in zone.outages))
    later = [begin for begin, _ in zone.outages if begin > at]
    assert zone.next_outage(at) == min(later, default=math.inf)


@given(st.lists(zones(), min_size=1, max_size=3), st.sampled_from(POLICIES))
def test_sleep_never_costs_time_and_money_follows_the_market(
    found: list[Zone], policy: Policy
) -> None:
    trace = Trace("t", tuple(found), 3, 0.4)
    plain, asleep = (replay(trace, policy, sleeps=sleeps) for sleeps in (False, True))
    assert asleep.lost <= plain.lost
    assert (asleep.cost, asleep.interruptions) == (plain.cost, plain.interruptions)
    assert 0.4 * plain.hours <= plain.cost + 1e-6
    assert plain.cost <= plain.hours + 1e-6
    if policy == "on-demand":
        assert plain.interruptions == 0


def test_without_interruptions_only_idle_stops_are_lost() -> None:
    trace = Trace("t", (ALWAYS,), 2, 0.4)
    for policy in POLICIES:
        plain, asleep = (replay(trace, policy, sleeps=sleeps) for sleeps in (False, True))
        # One stop in each day's long pause, and one night between the days.
        assert plain.lost == PEOPLE * (2 * (START + REDO) + REDO)
        assert asleep.lost == PEOPLE * (2 * (START + WAKE) + WAKE)


@pytest.mark.parametrize(("policy", "interruptions"), [("resume", 2), ("resume-on-demand", 1)])
def test_on_demand_is_not_interrupted_again(policy: Policy, interruptions: int) -> None:
    first = Zone(((MORNING, MORNING + 5),))
    second = Zone(((MORNING + 10, MORNING + 15),))
    result = replay(Trace("t", (first, second), 1, 0.4), policy, sleeps=True)
    # Whoever begins in the second zone is interrupted once, and has the first one then.
    begun_in_second = PEOPLE // 2
    expected = (PEOPLE - begun_in_second) * interruptions + begun_in_second
    assert result.interruptions == expected


def test_a_recorded_trace(tmp_path: Path) -> None:
    data = [1, 0, 0, 2, 0, *[1] * 1435]
    text = json.dumps({"metadata": {"gap_seconds": 60}, "data": data})
    (tmp_path / "a.json").write_text(text)
    trace = recorded("t", tmp_path, 0.4)
    assert trace.zones == (Zone(((1.0, 3.0), (4.0, 5.0))),)
    assert trace.days == 1


def test_the_page_has_the_table_of_this_version() -> None:
    """`python -m tests.bench.traces` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_with(text, table(list(synthetic())))

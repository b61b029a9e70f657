"""How a server continues on another instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.idle.stop_decision import stop_at
from ec2spawner.core.sleep.continuation import (
    MAX_SHORT_RUNS,
    SHORT_RUN,
    TakenOver,
    is_interrupted_too_often,
    markets_after,
    seconds_to_save,
    taken_over,
    with_age,
)
from ec2spawner.core.sleep.step_budgets import RECLAIM_SECONDS
from ec2spawner.wire import IdlePolicy, Market

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
BOTH = (Market.SPOT, Market.ON_DEMAND)

spans = st.floats(0, 86400).map(lambda seconds: timedelta(seconds=seconds))
runs = st.lists(st.tuples(spans, st.none() | spans), min_size=1, max_size=6)


def test_markets() -> None:
    assert markets_after("resume", BOTH) == BOTH
    assert markets_after("resume-on-demand", BOTH) == (Market.ON_DEMAND,)
    assert markets_after("resume-on-demand", (Market.SPOT,)) == (Market.SPOT,)


def after(runs: list[tuple[timedelta, timedelta | None]]) -> TakenOver:
    """Of a server with runs of these lengths, idle at the end of each for so long."""
    over = TakenOver()
    for ran, idle in runs:
        idle_since = None if idle is None else NOON - idle
        over = taken_over(over, "interruption", NOON - ran, idle_since, NOON)
    return over


@given(runs)
def test_age_adds_up_and_idle_time_is_never_longer(
    runs: list[tuple[timedelta, timedelta | None]],
) -> None:
    over = after(runs)
    assert over.ran_seconds == pytest.approx(sum(ran.total_seconds() for ran, _ in runs))
    assert 0 <= over.idle_seconds <= over.ran_seconds
    if runs[-1][1] is None:
        assert over.idle_seconds == 0


@given(runs)
def test_only_short_runs_in_a_row_end_a_server(
    runs: list[tuple[timedelta, timedelta | None]],
) -> None:
    over, last = after(runs), runs[-MAX_SHORT_RUNS:]
    all_short = len(last) == MAX_SHORT_RUNS and all(ran < SHORT_RUN for ran, _ in last)
    assert is_interrupted_too_often(over) == all_short


@given(runs, st.floats(1, 86400), st.floats(0, 86400))
def test_a_server_stops_at_the_age_that_all_its_runs_have_together(
    runs: list[tuple[timedelta, timedelta | None]], max_age: float, since_ready: float
) -> None:
    over = after(runs)
    policy = with_age(IdlePolicy(server_seconds=0, max_age_seconds=max_age), over)
    ready_at = NOON
    began = ready_at - timedelta(seconds=over.idle_seconds)
    ends = stop_at(policy, began, None, None)
    assert ends is not None
    due = ready_at + timedelta(seconds=max_age - over.ran_seconds)
    assert ends == pytest.approx(due, abs=timedelta(milliseconds=1)) or ends <= began + timedelta(
        seconds=1
    )


@given(st.floats(0, 600), st.none() | st.floats(-60, 600))
def test_saving_ends_before_ec2_reclaims_the_instance(wanted: float, left: float | None) -> None:
    until = None if left is None else NOON + timedelta(seconds=left)
    seconds = seconds_to_save(wanted, until, NOON)
    assert 0 <= seconds <= wanted
    if left is not None:
        assert seconds == 0 or seconds <= left - RECLAIM_SECONDS + 1e-3

"""What follows when a run has lost its instance, and when its cost cap is reached."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.runs.attempts import MAX_FAILED_STARTS, After, Tries, after_attempt
from ec2spawner.core.runs.cost_cap import affordable_usd_per_hour, is_reached
from ec2spawner.wire import Stop

REASONS = get_args(Stop.model_fields["reason"].annotation)


def after(reason: str, *, has_run: bool = True, tries: Tries | None = None) -> After:
    return after_attempt(reason, has_run=has_run, tries=tries or Tries(), retries=2)


@pytest.mark.parametrize("has_run", [True, False])
def test_ends_that_are_meant_are_final(has_run: bool) -> None:
    outcomes = {reason: after(reason, has_run=has_run).outcome for reason in OUTCOMES}
    assert outcomes == OUTCOMES


OUTCOMES = {"user": "cancelled", "admin": "cancelled", "budget": "limit", "max-age": "limit"}


@pytest.mark.parametrize("reason", sorted(set(REASONS) - OUTCOMES.keys()))
def test_a_lost_instance_is_replaced_as_often_as_the_run_allows(reason: str) -> None:
    first = after(reason)
    assert (first.outcome, first.pause_seconds) == (None, 0.0), "at once: others are to be had"
    second = after(reason, tries=first.tries)
    assert second.outcome is None
    assert after(reason, tries=second.tries).outcome == "failed"


def test_a_run_waits_for_capacity_for_as_long_as_it_takes() -> None:
    tries = Tries()
    pauses = []
    for _ in range(50):
        found = after("capacity", has_run=False, tries=tries)
        assert found.outcome is None
        tries = found.tries
        pauses.append(found.pause_seconds)
    assert 10 < pauses[0] <= 15
    assert 480 <= pauses[-1] <= 600


def test_starts_that_fail_again_and_again_end_the_run() -> None:
    tries = Tries()
    for _ in range(MAX_FAILED_STARTS - 1):
        found = after("failed", has_run=False, tries=tries)
        assert found.outcome is None
        assert found.pause_seconds > 0
        tries = found.tries
    assert after("failed", has_run=False, tries=tries).outcome == "failed"


def test_a_start_that_finds_nothing_forgives_those_that_failed() -> None:
    tries = Tries(lost=1, failed_starts=MAX_FAILED_STARTS - 1)
    assert after("quota", has_run=False, tries=tries).tries == Tries(lost=1, waits=1)


@given(st.floats(0.01, 100), st.floats(0, 100), st.floats(0.01, 50), st.floats(0, 120))
def test_an_instance_that_is_affordable_is_not_stopped_at_once(
    max_usd: float, spent: float, usd_per_hour: float, stop_seconds: float
) -> None:
    if usd_per_hour <= affordable_usd_per_hour(max_usd, spent, stop_seconds) * 0.999:
        assert not is_reached(max_usd, spent, usd_per_hour, stop_seconds)


@given(st.floats(0.01, 100), st.floats(0.01, 50), st.floats(0, 120))
def test_a_run_that_is_stopped_in_time_costs_no_more_than_its_cap(
    max_usd: float, usd_per_hour: float, stop_seconds: float
) -> None:
    per_second = usd_per_hour / 3600
    spent = max(0.0, max_usd - per_second * 600)  # the last ten minutes before the cap
    assert spent == 0.0 or not is_reached(max_usd, spent, usd_per_hour, stop_seconds)
    while not is_reached(max_usd, spent, usd_per_hour, stop_seconds):
        spent += per_second * 5  # a pass comes every five seconds
        if spent > max_usd:
            pytest.fail("nothing has stopped it")
    if spent:
        assert spent + per_second * stop_seconds <= max_usd

"""The phases of starts and their outcomes, from any story."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.starts.outcome import Outcome, outcome_of_failure
from ec2spawner.core.starts.phases import phases
from ec2spawner.wire import Step, Stop

BEGIN = datetime(2026, 11, 23, 23, 59, 50, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def story(*steps: tuple[Step, float]) -> list[tuple[Step, datetime]]:
    return [(step, at(seconds)) for step, seconds in steps]


def test_each_phase_lasts_until_the_next_step() -> None:
    steps = story((Step.REQUEST, 0), (Step.BOOT, 2), (Step.NOTEBOOK, 30), (Step.READY, 37))
    found = [(phase.step, phase.seconds) for phase in phases(steps)]
    assert found == [(Step.REQUEST, 2), (Step.BOOT, 28), (Step.NOTEBOOK, 7)]


def test_reports_of_one_step_in_a_row_are_one_phase() -> None:
    steps = story((Step.REQUEST, 0), (Step.REQUEST, 5), (Step.BOOT, 9))
    assert [phase.seconds for phase in phases(steps)] == [9]


def test_a_start_that_gets_another_instance_boots_twice() -> None:
    steps = story((Step.REQUEST, 0), (Step.BOOT, 1), (Step.REQUEST, 60), (Step.BOOT, 61))
    assert [phase.step for phase in phases(steps)] == [Step.REQUEST, Step.BOOT, Step.REQUEST]


def test_the_phase_in_which_a_start_ended_is_incomplete() -> None:
    steps = story((Step.REQUEST, 0), (Step.BOOT, 1))
    assert [phase.step for phase in phases(steps)] == [Step.REQUEST]
    last = phases(steps, at(601))[-1]
    assert (last.step, last.seconds, last.is_complete) == (Step.BOOT, 600, False)


STEPS = st.lists(
    st.tuples(st.sampled_from(Step), st.floats(-3600, 3600).map(at)),  # the clock can be set
    max_size=12,
)


@given(STEPS, st.none() | st.floats(-3600, 7200).map(at))
def test_phases_are_never_negative_and_only_the_last_is_incomplete(
    steps: list[tuple[Step, datetime]], gave_up_at: datetime | None
) -> None:
    found = phases(steps, gave_up_at)
    assert all(phase.seconds >= 0 for phase in found)
    assert all(phase.is_complete for phase in found[:-1])
    assert all(phase.step is not Step.READY for phase in found)


@given(STEPS)
def test_a_longer_story_keeps_the_phases_that_were_reported(
    steps: list[tuple[Step, datetime]],
) -> None:
    whole = phases(steps)
    for length in range(len(steps)):
        part = phases(steps[:length])
        assert whole[: len(part)] == part


@pytest.mark.parametrize("reason", get_args(Stop.model_fields["reason"].annotation))
def test_every_reason_of_a_stop_is_an_outcome_other_than_ready(reason: str) -> None:
    assert outcome_of_failure(reason, is_refused=False) is not Outcome.READY


@pytest.mark.parametrize(
    ("reason", "is_refused", "outcome"),
    [
        ("user", False, "cancelled"),
        ("user", True, "cancelled"),
        ("capacity", False, "sold-out"),
        ("quota", False, "quota"),
        ("budget", False, "limit"),
        ("failed", False, "failed"),
        ("failed", True, "refused"),
        ("interruption", False, "failed"),
    ],
)
def test_outcomes_of_starts_that_failed(reason: str, is_refused: bool, outcome: str) -> None:
    assert outcome_of_failure(reason, is_refused=is_refused) == outcome

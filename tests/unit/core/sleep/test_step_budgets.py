"""How long each step of an end may take: whatever is left, home and documents get their share."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.sleep.step_budgets import (
    HOOK_SECONDS,
    LATEST_SAVE_SECONDS,
    RECLAIM_SECONDS,
    hook_seconds,
    is_save_due,
    step_budgets,
)
from ec2spawner.wire import SAVE_SECONDS

seconds = st.floats(min_value=0, max_value=1e6)


@given(seconds, st.floats(min_value=-1e6, max_value=1e6))
def test_all_steps_end_before_ec2_reclaims_the_instance(save: float, left: float) -> None:
    found = step_budgets(save, left)
    steps = (found.documents, found.session, found.notebook)
    assert all(each >= 0 for each in steps)
    assert found.session <= save
    assert sum(steps) <= max(left, 0) + 1e-6


@given(seconds, st.floats(min_value=1, max_value=1e6))
def test_the_home_has_time_after_the_notebook(save: float, left: float) -> None:
    found = step_budgets(save, left)
    for_home = left - found.documents - found.session - found.notebook
    assert for_home >= min(RECLAIM_SECONDS, left / 3) * 2 / 3 - 1e-6


@given(seconds)
def test_a_stop_without_a_notice_has_the_time_that_it_says(save: float) -> None:
    found = step_budgets(save)
    assert (found.documents, found.session) == (SAVE_SECONDS, save)


def test_the_latest_save_has_time_for_every_step() -> None:
    found = step_budgets(LATEST_SAVE_SECONDS, LATEST_SAVE_SECONDS)
    assert found.documents == SAVE_SECONDS
    assert found.session == 25
    assert is_save_due(LATEST_SAVE_SECONDS)
    assert not is_save_due(LATEST_SAVE_SECONDS + 1)
    assert not is_save_due(math.inf)


@given(st.floats(min_value=-100, max_value=1e6))
def test_a_hook_leaves_two_thirds_for_the_variables(left: float) -> None:
    assert 0 <= hook_seconds(left) <= min(HOOK_SECONDS, max(left, 0) / 3)

"""When a loop is saved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.checkpoint.schedule import AFTER_NOTICE, Saved, last_reason, reason
from ec2spawner.cost.notice import Notice, announced

NOTICE = Notice("interruption", 2_000.0)
seconds = st.floats(0, 1e6)


def test_by_schedule() -> None:
    assert not reason(9, Saved(0), 10, None)
    assert reason(10, Saved(0), 10, None) == "schedule"


def test_a_notice_once_and_then_often() -> None:
    assert reason(1, Saved(0), 300, NOTICE) == "interruption"
    known = Saved(1, 0.5, NOTICE)
    assert not reason(1 + AFTER_NOTICE - 1, known, 300, NOTICE)
    assert reason(1 + AFTER_NOTICE, known, 300, NOTICE) == "interruption"
    assert not reason(1 + AFTER_NOTICE, Saved(1, 20, NOTICE), 300, NOTICE), "saving takes long"


def test_the_last_checkpoint_is_left_out_where_it_takes_too_long() -> None:
    assert last_reason(1, Saved(1, 0.5, NOTICE), NOTICE) == "interruption"
    assert last_reason(99, Saved(1, 20, NOTICE), NOTICE) == "interruption"
    assert not last_reason(5, Saved(1, 20, NOTICE), NOTICE)


def test_a_corrected_time_is_the_same_notice() -> None:
    moved = Notice("interruption", 2_001.0)
    assert not reason(1, Saved(0, 0, NOTICE), 300, moved)
    assert reason(1, Saved(0, 0, NOTICE), 300, Notice("user", 2_000.0, "s1")) == "user"


@given(elapsed=seconds, took=seconds, every=seconds)
def test_a_notice_never_delays_the_schedule(elapsed: float, took: float, every: float) -> None:
    saved = Saved(0, took, NOTICE)
    if reason(elapsed, saved, every, None):
        assert reason(elapsed, saved, every, NOTICE)


def test_what_the_agent_announces() -> None:
    at = "2026-05-04T14:10:00Z"
    order = {"id": "s1", "trigger": "user", "until": at}
    assert announced({}) is None
    assert announced({"interruption_at": None, "sleep": None}) is None
    assert announced({"sleep": order}) == Notice("user", 1_777_903_800.0, "s1", is_saving=True)
    interruption = Notice("interruption", 1_777_903_800.0)
    assert announced({"interruption_at": at}) == interruption
    saving = replace(interruption, is_saving=True)
    assert announced({"interruption_at": at, "sleep": order}) == saving
    assert announced({"sleep": {**order, "trigger": "interruption"}}) == saving


def test_a_notice_in_another_form_is_none() -> None:
    assert announced({"interruption_at": "soon"}) is None
    assert announced({"interruption_at": 3}) is None
    assert announced({"sleep": {"id": "s1"}}) is None
    assert announced({"sleep": 1}) is None

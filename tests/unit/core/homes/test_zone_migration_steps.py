"""Moves of homes: what comes next, and what it is said to take."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.homes.zone_migration import (
    LISTING_GRACE,
    Move,
    MoveStep,
    estimate,
    is_worth_moving,
    next_step,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
prices = st.none() | st.floats(0.001, 200)
instants = st.integers(-3600, 3600).map(lambda seconds: NOW + timedelta(seconds=seconds))
moves = st.builds(
    Move,
    move_id=st.just("move-1"),
    zone=st.just("us-east-1b"),
    from_volume_id=st.just("vol-old"),
    from_zone=st.just("us-east-1a"),
    volume_token=st.just("token"),
    snapshot_asked_at=st.none() | instants,
    snapshot_id=st.none() | st.just("snap-1"),
    volume_id=st.none() | st.just("vol-new"),
    opened_at=st.none() | instants,
    discard=st.lists(st.sampled_from(["vol-x", "vol-y"]), unique=True).map(tuple),
)
states = st.none() | st.sampled_from(["pending", "completed", "error", "recoverable"])


@given(moves, states, st.booleans())
def test_nothing_is_deleted_before_a_server_was_ready_with_the_new_volume(
    move: Move, state: str | None, was_ready: bool
) -> None:
    step = next_step(move, state, was_ready=was_ready, now=NOW)
    if step is MoveStep.CLEAN_UP:
        assert move.volume_id is not None
        assert move.opened_at is not None
        assert was_ready
    if move.volume_id is not None:
        assert step in {MoveStep.CLEAN_UP, MoveStep.OPEN}, "a move that took place is never undone"


@given(moves, states, st.booleans())
def test_a_volume_is_created_only_from_a_complete_snapshot(
    move: Move, state: str | None, was_ready: bool
) -> None:
    step = next_step(move, state, was_ready=was_ready, now=NOW)
    assert (step is MoveStep.VOLUME) == (move.volume_id is None and state == "completed")


@given(moves, st.booleans())
def test_a_snapshot_with_a_lost_response_is_searched_before_another_is_requested(
    move: Move, was_ready: bool
) -> None:
    asked_lately = replace(move, volume_id=None, snapshot_asked_at=NOW - LISTING_GRACE / 2)
    assert next_step(asked_lately, None, was_ready=was_ready, now=NOW) is MoveStep.WAIT
    long_ago = replace(asked_lately, snapshot_asked_at=NOW - LISTING_GRACE, snapshot_id=None)
    assert next_step(long_ago, None, was_ready=was_ready, now=NOW) is MoveStep.SNAPSHOT


@given(moves)
def test_giving_up_a_move_keeps_pending_deletions(move: Move) -> None:
    left = move.given_up("vol-home", NOW)
    assert (left is None) == (not move.discard)
    if left is not None:
        assert {left.from_volume_id, *left.discard} == set(move.discard)
        assert left.volume_id == "vol-home"
        assert next_step(left, None, was_ready=False, now=NOW) is MoveStep.OPEN


@given(st.integers(1, 16384), st.none() | st.floats(0, 16384))
def test_an_estimate_is_a_range_that_grows_with_the_home(size: int, stored: float | None) -> None:
    stored = None if stored is None else min(stored, float(size))
    estimated = estimate(size, stored)
    assert 0 < estimated.seconds[0] <= estimated.seconds[1]
    assert estimated.usd > 0
    larger = estimate(size * 2, stored if stored is None else stored * 2)
    assert larger.seconds[1] >= estimated.seconds[1]
    assert larger.usd >= estimated.usd


def test_a_small_home_is_estimated_at_minutes_and_cents() -> None:
    estimated = estimate(50, 10.0)
    assert timedelta(seconds=estimated.seconds[1]) < timedelta(minutes=10)
    assert estimated.usd < 0.05


@given(prices, prices)
def test_a_move_is_worth_it_only_for_a_noticeable_saving(
    here: float | None, there: float | None
) -> None:
    worth = is_worth_moving(here, there)
    if here is None or there is None:
        assert not worth, "unknown is no reason"
    else:
        assert worth is (there <= 0.8 * here)
        assert not (worth and is_worth_moving(there, here))


def test_a_zone_at_half_the_price_is_worth_a_move() -> None:
    assert is_worth_moving(0.49, 0.29)
    assert not is_worth_moving(0.49, 0.45)

"""The steps of a copy of a home, and which snapshot has all files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.homes.server_copy import (
    BUSY,
    REFUSALS,
    CopyStep,
    is_as_it_is_now,
    next_step,
)
from ec2spawner.core.homes.zone_migration import LISTING_GRACE, CopyState

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

states = st.none() | st.sampled_from(CopyState) | st.just("unheard-of")
times = st.none() | st.integers(0, 600).map(lambda ago: NOW - timedelta(seconds=ago))


@given(states, times)
def test_a_snapshot_is_made_only_where_copy_volumes_is_refused(
    snapshot: str | None, asked_at: datetime | None
) -> None:
    step = next_step(snapshot, is_refused=False, asked_at=asked_at, now=NOW)
    assert step is CopyStep.COPY


@given(states, times)
def test_a_snapshot_is_asked_for_once_and_used_when_complete(
    snapshot: str | None, asked_at: datetime | None
) -> None:
    step = next_step(snapshot, is_refused=True, asked_at=asked_at, now=NOW)
    assert (step is CopyStep.VOLUME) == (snapshot == CopyState.COMPLETED)
    late = asked_at is None or NOW - asked_at >= LISTING_GRACE
    assert (step is CopyStep.SNAPSHOT) == (snapshot is None and late)
    assert step is not CopyStep.COPY


def test_a_snapshot_that_failed_ends_the_copy() -> None:
    assert next_step(CopyState.ERROR, is_refused=True, asked_at=NOW, now=NOW) is CopyStep.GIVE_UP


def test_an_error_that_passes_is_no_refusal() -> None:
    assert not BUSY & REFUSALS


@given(st.integers(-600, 600), st.booleans())
def test_a_snapshot_has_all_files_if_the_home_was_not_used_since(
    seconds: int, in_use: bool
) -> None:
    taken_at = NOW + timedelta(seconds=seconds)
    assert is_as_it_is_now(taken_at, NOW, in_use=in_use) == (seconds > 0 and not in_use)
    assert not is_as_it_is_now(taken_at, None, in_use=in_use), "it may have been used"

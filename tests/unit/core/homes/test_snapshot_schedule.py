"""Scheduled snapshots: when one is due, and which are too many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.homes.snapshot_schedule import Copy, Schedule, is_due, too_many

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAILY = Schedule(every=86400, keep=3)

copies = st.lists(
    st.builds(
        Copy,
        snapshot_id=st.uuids().map(str),
        started_at=st.integers(0, 10**6).map(lambda ago: NOW - timedelta(seconds=ago)),
        state=st.sampled_from(["pending", "completed", "error"]),
    ),
    max_size=12,
    unique_by=lambda copy: copy.snapshot_id,
)


@given(copies, st.integers(1, 10))
def test_the_newest_complete_and_all_pending_snapshots_are_kept(
    there: list[Copy], keep: int
) -> None:
    deleted = set(too_many(keep, there))
    kept = [copy for copy in there if copy.snapshot_id not in deleted]
    complete = [copy for copy in there if copy.state == "completed"]
    kept_complete = [copy for copy in kept if copy.state == "completed"]
    assert len(kept_complete) == min(keep, len(complete))
    assert not any(copy.state == "error" for copy in kept)
    assert all(copy in kept for copy in there if copy.state == "pending")
    gone = [copy.started_at for copy in complete if copy.snapshot_id in deleted]
    assert max(gone, default=datetime.min.replace(tzinfo=UTC)) <= min(
        (copy.started_at for copy in kept_complete), default=NOW
    )


@given(copies)
def test_no_second_snapshot_while_one_is_pending(there: list[Copy]) -> None:
    pending = any(copy.state == "pending" for copy in there)
    long_ago = NOW - timedelta(days=365)
    due = is_due(DAILY, there, made_at=long_ago, used_at=NOW, in_use=True, now=NOW)
    newest = max((c.started_at for c in there if c.state == "completed"), default=long_ago)
    assert due == (not pending and NOW - newest >= timedelta(days=1))


def test_an_unused_home_gets_no_further_snapshot() -> None:
    old = [Copy("snap-1", NOW - timedelta(days=9), "completed")]
    made = NOW - timedelta(days=30)

    def due(used_at: datetime | None, in_use: bool = False) -> bool:
        return is_due(DAILY, old, made_at=made, used_at=used_at, in_use=in_use, now=NOW)

    assert not due(None)
    assert not due(NOW - timedelta(days=10))
    assert due(NOW - timedelta(days=8))
    assert due(None, in_use=True)


def test_a_new_home_is_due_after_one_interval() -> None:
    def due(age: timedelta) -> bool:
        return is_due(DAILY, [], made_at=NOW - age, used_at=None, in_use=False, now=NOW)

    assert not due(timedelta(hours=23))
    assert due(timedelta(hours=24))

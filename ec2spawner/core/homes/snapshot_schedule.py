"""Scheduled snapshots of a home: when the next one is due, and which ones to delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often snapshots of a home are made, and how many are retained."""

    every: float
    """Seconds."""
    keep: int
    """Completed snapshots retained of each home."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A snapshot that the schedule made."""

    snapshot_id: str
    started_at: datetime
    state: str
    """EC2's: pending, completed, error."""


def is_due(
    schedule: Schedule,
    copies: Iterable[Copy],
    *,
    made_at: datetime,
    used_at: datetime | None,
    in_use: bool,
    now: datetime,
) -> bool:
    """Whether a home gets a snapshot now.

    A home that was not used since its newest snapshot gets none: it would be identical, and would
    displace an older state. `made_at` is when the home was created.
    """
    copies = [copy for copy in copies if copy.state != "error"]
    if any(copy.state == "pending" for copy in copies):
        return False
    newest = max((copy.started_at for copy in copies), default=None)
    if now - (newest or made_at) < timedelta(seconds=schedule.every):
        return False
    return in_use or newest is None or (used_at is not None and used_at > newest)


def too_many(keep: int, copies: Iterable[Copy]) -> tuple[str, ...]:
    """Ids of the snapshots to delete: failed ones, and the oldest beyond `keep` completed ones."""
    ordered = sorted(copies, key=lambda copy: (copy.started_at, copy.snapshot_id), reverse=True)
    completed = [copy.snapshot_id for copy in ordered if copy.state == "completed"]
    failed = [copy.snapshot_id for copy in ordered if copy.state == "error"]
    return (*failed, *completed[keep:])

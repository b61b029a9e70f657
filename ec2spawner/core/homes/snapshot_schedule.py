"""Scheduled snapshots of a home: when the next one is due, and which are too many. Pure."""

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
    """So many completed ones of each home."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A snapshot that was made by schedule."""

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

    One that nobody has used since its newest snapshot gets none: it would be the same, and push
    an older state out. `made_at` is the home's own beginning.
    """
    copies = [copy for copy in copies if copy.state != "error"]
    if any(copy.state == "pending" for copy in copies):
        return False
    newest = max((copy.started_at for copy in copies), default=None)
    if now - (newest or made_at) < timedelta(seconds=schedule.every):
        return False
    return in_use or newest is None or (used_at is not None and used_at > newest)


def too_many(keep: int, copies: Iterable[Copy]) -> tuple[str, ...]:
    """Ids of those to delete: what failed, and the oldest beyond `keep` completed ones."""
    ordered = sorted(copies, key=lambda copy: (copy.started_at, copy.snapshot_id), reverse=True)
    completed = [copy.snapshot_id for copy in ordered if copy.state == "completed"]
    failed = [copy.snapshot_id for copy in ordered if copy.state == "error"]
    return (*failed, *completed[keep:])

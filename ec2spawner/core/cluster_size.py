"""How many workers a cluster gets or gives up now. Pure: numbers and instants in, decisions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from .backoff import Backoff

PAUSE: Final = Backoff(first=30.0, longest=600.0, jitter=0.2)
"""Before more workers are asked for again after some have failed: what is sold out is marked for
three minutes anyway (`core.offers.sold_out`)."""

MAX_FAILURES: Final = 3
"""So many workers in a row that had an instance and did not join, or failed soon after: what ends
them will end the next one, and each costs a boot."""

MIN_USE: Final = timedelta(minutes=5)
"""A worker that fails within this time after it has joined has not been of use."""


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """One worker of a cluster, as far as its number is concerned."""

    lease_id: str
    number: int
    is_ready: bool
    idle_since: datetime | None
    """Since when nothing runs on it; None while something does, and before it is ready."""
    is_leaving: bool = False
    """EC2 reclaims its instance: it works until then, and another one takes its place."""
    is_heard: bool = True
    """Whether it has reported since the hub's start: until then it is not known whether it is idle,
    nor whether it stops because the hub, just before it died, answered that it shall."""


def missing(workers: Sequence[WorkerNow], wanted: int) -> int:
    """How many workers to ask for. Those that are about to be reclaimed do not count, for as long
    as there are at most twice as many workers as wanted: an agent may claim that without an end."""
    staying = sum(not each.is_leaving for each in workers)
    return max(min(wanted - staying, 2 * wanted - len(workers)), 0)


def surplus(workers: Sequence[WorkerNow], wanted: int) -> list[WorkerNow]:
    """Which workers to give up: those that have not joined before those that have, the idle before
    the busy, and of equal ones those that came last. After a hub's start none before all that have
    joined are heard, or have ended as silent (`agent_silent_after`). If none is wanted, all, those
    that are about to be reclaimed as well."""
    if not wanted:
        return list(workers)
    if any(each.is_ready and not each.is_heard for each in workers):
        return []
    staying = [each for each in workers if not each.is_leaving]
    order = sorted(
        staying,
        key=lambda each: (each.is_ready, each.is_ready and each.idle_since is None, -each.number),
    )
    return order[: max(len(staying) - wanted, 0)]


def was_of_use(ready_at: datetime | None, ended_at: datetime | None) -> bool:
    """Whether a worker has joined, and worked since or for long enough. `ended_at` is when its end
    began, None while it has not."""
    if ready_at is None:
        return False
    return ended_at is None or ended_at - ready_at >= MIN_USE


def idle_seconds(server: float, profile: float) -> float:
    """The idle time of a cluster in seconds: that of its server or that of the workers' own
    profile, the shorter; 0 is none."""
    return min(filter(None, (server, profile)), default=0.0)


def idle_at(workers: Sequence[WorkerNow], idle_seconds: float) -> datetime | None:
    """When a cluster has been idle for so long; None while something runs on it, while a worker has
    not joined yet, and for a limit of 0, which is none."""
    since = [each.idle_since for each in workers if each.is_ready and not each.is_leaving]
    if not idle_seconds or not since or any(not each.is_ready for each in workers):
        return None
    known = [each for each in since if each is not None]
    return max(known) + timedelta(seconds=idle_seconds) if len(known) == len(since) else None

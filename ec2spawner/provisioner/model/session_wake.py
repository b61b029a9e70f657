"""Which saved session the server of a lease brings back. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from ...core.sleep.rules import Wakes
from .leases.lease import Lease
from .sleeping_session import SleepingSession


def wakes(lease: Lease, last: SleepingSession | None) -> Wakes:
    """What the start of a lease brings back, where `last` is what its server saved last.

    A server that continues on another instance also brings back what it has saved itself, although
    it was started without the session from before.
    """
    if not lease.continues:
        return lease.sleep.wake
    return "last" if lease.sleep.wake != "no" or _is_own(lease, last) else "no"


def _is_own(lease: Lease, last: SleepingSession | None) -> bool:
    """Whether the server has saved it itself, on one of the instances before this one.

    Times alone do not show it: a server that was started fresh just after the sleep, and moves at
    once, may wait for its other instance for longer than it had run. But what an earlier lease
    saved and nobody has woken since was left asleep.
    """
    if last is None:
        return False
    began = lease.requested_at - timedelta(seconds=lease.taken_over.ran_seconds)
    was_left_asleep = last.lease_id != lease.continues and last.woken_at is None
    return last.session.slept_at >= began and not was_left_asleep


def woken_at(lease: Lease, session: SleepingSession) -> datetime | None:
    """When the server of a lease has brought the session back, UTC; None where it has not."""
    at = lease.ready_at
    if at is None or session.lease_id == lease.lease_id or wakes(lease, session) == "no":
        return None
    return at if session.session.slept_at <= at < session.expires_at else None

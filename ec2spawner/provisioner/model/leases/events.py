"""What is reported of leases, once each: the phases of their starts, refusals, their ends, and
the sessions that they leave asleep.

Plain values for whoever reads `state.lease_events`. They name users and servers: personal data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ....core.ledger.cost_rows import Purpose
from ....core.limits.bounds import Kind
from ....core.sleep.session_end import SessionEnd
from ....core.starts.outcome import Outcome
from ....core.starts.phases import PhaseTime
from ....wire import Market
from ..sleeping_session import SleepingSession


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose lease, and where it runs as far as that is known."""

    lease_id: str
    user: str
    server: str
    """Empty for the default server."""
    payer: str
    """Such as `user:ada` or `group:research`."""
    profile: str
    """The profile's slug."""
    market: Market | None
    """None while nothing is bought."""
    instance_type: str
    """Empty until the start has an instance."""
    zone: str
    """The same."""


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of a start. All are reported together, once the start is over."""

    subject: Subject
    requested_at: datetime
    """When the start was requested, UTC."""
    phase: PhaseTime

    @property
    def at(self) -> datetime:
        """When the phase was over, UTC."""
        return self.requested_at + timedelta(seconds=self.phase.ended)


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A server has stopped, or its start has failed."""

    subject: Subject
    at: datetime
    """UTC."""
    start: Outcome
    """What became of the start."""
    reason: str
    """`wire.Stop.reason`."""
    ready_seconds: float
    """From the notebook that listened to the beginning of the stop; 0 if it never listened."""
    usd: Mapping[Purpose, float | None]
    """Cost of its instances in USD, with their disks, an estimate from prices; None is unknown."""


@dataclass(frozen=True, slots=True)
class StartDenied:
    """A limit has refused a start, at once or while it waited for its instance."""

    subject: Subject
    at: datetime
    """UTC."""
    scope: str
    """Whose limit it is, such as `user:ada` or `hub`."""
    limit: Kind | None
    """What it bounds; None where spending is limited and the price is unknown."""


@dataclass(frozen=True, slots=True)
class SessionSlept:
    """The session of a server was saved before its instance ended."""

    sleeping: SleepingSession


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """A session that slept was woken, or can be woken no more."""

    sleeping: SleepingSession
    at: datetime
    """UTC."""
    outcome: SessionEnd


LeaseEvent = PhaseEnded | LeaseEnded | StartDenied | SessionSlept | SessionEnded

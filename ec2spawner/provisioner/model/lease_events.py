"""What is reported of leases, once each: the phases of their starts, and their ends.

Plain values for whoever reads `state.lease_events`. They name users and servers: personal data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.starts.outcome import Outcome
from ...core.starts.phases import Phase
from ...wire import Market


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose lease, and where it runs as far as that is known."""

    lease_id: str
    user: str
    server: str
    """Empty for the default server."""
    profile: str
    """The profile's slug."""
    market: Market | None
    """None while nothing is bought."""
    instance_type: str
    """Empty until the start has an instance."""
    zone: str
    """The same, or where the instance has gone from the listing."""


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of a start is over."""

    subject: Subject
    phase: Phase


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
    """For how long the notebook listened, the time of the stop included; 0 if it never did."""
    usd: float | None
    """Cost of its instances, an estimate from prices, without disks; None is unknown."""


LeaseEvent = PhaseEnded | LeaseEnded

"""What is reported of leases, once each: the phases of their starts, and their ends.

Plain values for whoever reads `state.lease_events`. They name users and servers: personal data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ...core.ledger.cost_rows import Purpose
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
    """From the notebook that listened to the beginning of the stop; 0 if it never listened."""
    usd: Mapping[Purpose, float | None]
    """Cost of its instances in USD, an estimate from prices, without disks; None is unknown."""


LeaseEvent = PhaseEnded | LeaseEnded

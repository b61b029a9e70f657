"""The cost of a server that moves: a lease for each instance, one cost for its user. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class SessionCost:
    """What a server has cost under one lease, or under several that continue each other.

    Amounts in USD; None is unknown.
    """

    since: datetime | None = None
    """When billing began, UTC."""
    usd: float | None = 0.0
    known_usd: float | None = None
    """The same as far as prices are known; None if none is."""
    used_usd: float | None = 0.0
    """What of it was spent on time with work in it."""
    idle_usd: float | None = 0.0
    saved_usd: float | None = 0.0
    """What the same time on demand would have cost more."""
    workers_nano_usd: int = 0
    """Cost of the workers of its clusters as far as prices are known, in 1e-9 USD; not in `usd`."""
    workers_unknown: int = 0
    """How many prices of those are unknown."""

    def __add__(self, later: SessionCost) -> SessionCost:
        return SessionCost(
            since=self.since or later.since,
            usd=_sum(self.usd, later.usd),
            known_usd=_known(self.known_usd, later.known_usd),
            used_usd=_sum(self.used_usd, later.used_usd),
            idle_usd=_sum(self.idle_usd, later.idle_usd),
            saved_usd=_sum(self.saved_usd, later.saved_usd),
            workers_nano_usd=self.workers_nano_usd + later.workers_nano_usd,
            workers_unknown=self.workers_unknown + later.workers_unknown,
        )


NOTHING: Final = SessionCost()

OnDemand = Callable[[str], float | None]
"""Price of an instance type in USD/hour."""


def _sum(some: float | None, more: float | None) -> float | None:
    return None if some is None or more is None else some + more


def _known(some: float | None, more: float | None) -> float | None:
    return None if some is None and more is None else (some or 0.0) + (more or 0.0)

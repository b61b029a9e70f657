"""What an admin sees of the hub now: servers, kept instances, sold-out offers, failed starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from ..core.instances.retention_rules import Kept
from ..core.limits.admission import Account
from ..core.limits.bounds import Bounds, Kind
from ..core.limits.standing import Standing
from ..core.offers.sold_out import Mark, Scope
from ..wire import Telemetry
from .lifecycle.admin_actions import AdminActions
from .limits.accounts import Accounts
from .model.cloud import Instance
from .model.lease import Lease
from .offers.market import MarketData
from .state.denied_starts import DeniedStart
from .state.state import State

FAILURES_SHOWN = timedelta(days=1)
"""Starts that failed longer ago are no news."""


@dataclass(frozen=True, slots=True)
class ServerNow:
    """An open lease, and what its agent has reported last."""

    lease: Lease
    instance: Instance | None
    """As the last listing showed it; None while there is none."""
    idle_since: datetime | None
    busy_because: str
    """What keeps it on, for people; empty while it is idle."""
    stop_at: datetime | None
    """When it stops unless something happens; None for never, or if that is unknown."""
    interruption_at: datetime | None
    telemetry: Telemetry | None

    @property
    def gpu_percent(self) -> float | None:
        """Use of its GPUs, on average; None if none is measured."""
        gpus = self.telemetry.gpus if self.telemetry else []
        known = [gpu.use_percent for gpu in gpus if gpu.use_percent is not None]
        return fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class KeptNow:
    """An instance that waits for its user."""

    kept: Kept
    instance: Instance | None
    usd_per_hour: float | None
    """Of its running time; None if it is stopped, or the price is unknown."""


@dataclass(frozen=True, slots=True)
class LimitNow:
    """One limit of a user, a payer or the hub, and how much of it is used."""

    bounds: Bounds
    standing: Standing


@dataclass(frozen=True, slots=True)
class Overview:
    """Reads the state; changes nothing. All of it is in memory."""

    state: State
    market: MarketData
    actions: AdminActions

    def servers(self, user: str | None = None) -> tuple[ServerNow, ...]:
        """All open leases in the order of their requests, or those of one user."""
        leases = [each for each in self.state.leases.open() if user in (None, each.user)]
        return tuple(self._server(each) for each in sorted(leases, key=_requested))

    def _server(self, lease: Lease) -> ServerNow:
        contact = self.state.leases.contact(lease.lease_id)
        return ServerNow(
            lease=lease,
            instance=self.state.instances.listed.get(lease.instance_id or ""),
            idle_since=contact.idle_since,
            busy_because=contact.busy_because,
            stop_at=contact.reckoned[1] if contact.reckoned else None,
            interruption_at=contact.interruption_at,
            telemetry=contact.telemetry,
        )

    def kept(self) -> tuple[KeptNow, ...]:
        """Instances that are retained for their users."""
        listed = self.state.instances.listed
        return tuple(self._kept(each, listed.get(each.instance_id)) for each in _all(self.state))

    def _kept(self, kept: Kept, instance: Instance | None) -> KeptNow:
        runs = instance is not None and kept.then == "linger"
        price = self.market.prices.price_of(instance) if runs and instance else None
        return KeptNow(kept, instance, price.usd_per_hour if price else None)

    def sold_out(self) -> tuple[tuple[Scope, Mark], ...]:
        """What is not requested now, because EC2 refused it."""
        return self.market.offers.sold_out.all(self.state.clock.now())

    def denied_starts(self) -> tuple[DeniedStart, ...]:
        """The last start of each server that a limit refused within a day, the newest first."""
        return self.state.denied_starts.since(self.state.clock.now() - FAILURES_SHOWN)

    def limits(self, scopes: Sequence[str]) -> tuple[LimitNow, ...]:
        """How the limits of these scopes stand now, those without limits left out."""
        accounts = Accounts(self.state, self.market).of(scopes)
        return tuple(limit for account in accounts for limit in _limits(account))

    def failed_starts(self) -> tuple[Lease, ...]:
        """The last start of each server that failed within a day, the newest first."""
        since = self.state.clock.now() - FAILURES_SHOWN
        failed = [
            lease
            for lease in self.state.leases.ended_since(since)
            if lease.ready_at is None and lease.stop is not None and lease.stop.reason != "user"
        ]
        return tuple(sorted(failed, key=_requested, reverse=True))


def _limits(account: Account) -> Iterator[LimitNow]:
    bounds = account.bounds
    for standing in account.standings:
        yield LimitNow(bounds, standing)
    for kind, used in ((Kind.RATE, account.rate), (Kind.SERVERS, account.servers)):
        limit = bounds.limit(kind)
        if limit is not None:
            yield LimitNow(bounds, Standing(account.scope, kind, limit, used))


def _all(state: State) -> Sequence[Kept]:
    return sorted(state.retained.all(), key=lambda kept: kept.until)


def _requested(lease: Lease) -> datetime:
    return lease.requested_at

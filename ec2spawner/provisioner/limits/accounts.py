"""What scopes have spent, hold and run at this moment, as admission judges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ...core.ledger.amount import Amount, assumed_per_hour
from ...core.ledger.cost_rows import HUB
from ...core.limits.admission import FIRST_HOUR, Account, OfferPrice, nano, reservation
from ...core.limits.bounds import Bounds, Kind
from ...core.limits.standing import standings
from ...core.offers.purchase import Offer
from ..instances.unleased import (
    retained_segments,
    segments_beside_starts,
    servers_that_start,
)
from ..model.cloud.launch import LaunchSpec
from ..model.leases.lease import OPEN, Lease
from ..offers.market import MarketData
from ..state.state import State

AN_HOUR: Final = timedelta(seconds=FIRST_HOUR)


@dataclass(slots=True)
class Accounts:
    """Accounts of scopes, all at one moment: prices are read once for leases that want the same."""

    state: State
    market: MarketData
    start: Lease | None = None
    """A lease that starts: it does not count, nor does what is kept for its server."""
    user: str = ""
    """Whose start is previewed: what is kept for that server does not count."""
    server: str = ""
    _dearest: dict[LaunchSpec, OfferPrice] = field(default_factory=dict)

    def of(self, scopes: Sequence[str]) -> tuple[Account, ...]:
        """The accounts of those scopes that have limits."""
        limits = self.state.settings.limits
        return tuple(self._account(scope) for scope in scopes if limits.of(scope).limits_starts)

    def prices_of(self, offers: Sequence[Offer], beside: float) -> tuple[OfferPrice, ...]:
        """What offers cost, with what comes `beside` the instance in USD/hour, and their GPUs."""
        return tuple(
            OfferPrice(
                None if offer.usd_per_hour is None else offer.usd_per_hour + beside,
                self._gpus(offer.instance_type),
            )
            for offer in offers
        )

    def beside_usd_per_hour(self, spec: LaunchSpec) -> float:
        """What comes beside an instance of this spec."""
        return self.market.prices.beside_spec(spec).usd_per_hour

    def _account(self, scope: str) -> Account:
        state = self.state
        bounds = state.settings.limits.of(scope)
        days = state.spending.by_day(scope, state.leases) if bounds.days else {}
        now = state.clock.now()
        servers = reserved = reserved_gpu = 0
        overhead = self._overhead(scope, bounds, now)
        rate, unpriced = overhead.nano_usd, overhead.uncounted
        in_scope = [x for x in state.leases.in_scope(scope) if x.state in OPEN]
        # What a start continues ends when that has its instance: it replaces it.
        without = {self.start.lease_id, self.start.continues} if self.start else set()
        moving = {lease.continues for lease in in_scope}
        for lease in in_scope:
            if lease.lease_id in without:
                continue
            price = self.price_of(lease)
            servers += lease.lease_id not in moving  # one server, though both instances cost
            unpriced += price.usd_per_hour is None
            rate += nano(price.usd_per_hour or 0.0)
            if seconds := self._reserved_seconds(lease, now):
                money, gpu = reservation(price.usd_per_hour or 0.0, price.gpus, seconds)
                reserved += money
                reserved_gpu += gpu
        return Account(
            scope=scope,
            bounds=bounds,
            standings=standings(scope, bounds, days, state.spending.today()),
            servers=servers,
            rate=rate,
            unpriced=unpriced,
            reserved=reserved,
            reserved_gpu=reserved_gpu,
        )

    def _overhead(self, scope: str, bounds: Bounds, now: datetime) -> Amount:
        """What the scope pays for in an hour that is neither a lease's nor for a start."""
        if bounds.limit(Kind.RATE) is None:
            return Amount()
        state, start, prices = self.state, self.start, self.market.prices
        user, server = (start.user, start.server) if start else (self.user, self.server)
        if scope == HUB:
            return assumed_per_hour(segments_beside_starts(state, prices, now, user, server), now)
        starting = servers_that_start(state, user, server)
        return assumed_per_hour(retained_segments(state, prices, now, scope, starting), now)

    def price_of(self, lease: Lease) -> OfferPrice:
        """What a lease costs now; before it has an instance, the most that it may cost."""
        current = lease.segments[-1] if lease.segments else None
        if current is not None and current.end is None:
            return OfferPrice(self.state.spending.usd_per_hour(lease), current.gpus)
        if lease.spec not in self._dearest:
            prices = self.prices_of(
                self.market.offers.all_for(lease.spec),
                self.beside_usd_per_hour(lease.spec),
            )
            self._dearest[lease.spec] = OfferPrice(
                max((each.usd_per_hour or 0.0 for each in prices), default=0.0)
                or lease.spec.max_usd_per_hour,
                max((each.gpus for each in prices), default=0.0),
            )
        return self._dearest[lease.spec]

    def _reserved_seconds(self, lease: Lease, now: datetime) -> float:
        """What is left of the first hour of an open lease."""
        if lease.stop is not None:
            return 0.0
        current = lease.segments[-1] if lease.segments else None
        if current is not None and current.end is None and now - current.start >= AN_HOUR:
            return 0.0  # most servers: their other segments need not be added up
        return max(reserved_seconds(lease) - self.state.spending.lasted_seconds(lease), 0.0)

    def _gpus(self, instance_type: str) -> float:
        kind = self.market.catalogue.types.get(instance_type)
        return float(kind.gpu_count or kind.gpu_partition) if kind else 0.0


def reserved_seconds(lease: Lease) -> float:
    """How long a start must be able to pay: an hour, or less where it may not run so long."""
    return min(FIRST_HOUR, lease.idle.max_age_seconds or FIRST_HOUR)

"""What scopes have spent, hold and run at this moment, as admission judges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.ledger.cost import durations
from ...core.ledger.segments import assumed_usd_per_hour
from ...core.limits.admission import FIRST_HOUR, Account, OfferPrice, nano, reservation
from ...core.limits.standing import standings
from ...core.offers.purchase import Offer
from ..model.cloud import LaunchSpec
from ..model.lease import OPEN, Lease
from ..offers.market import MarketData
from ..state.spending import scopes_of
from ..state.state import State


@dataclass(slots=True)
class Accounts:
    """Accounts of scopes, all at one moment: prices are read once for leases that want the same."""

    state: State
    market: MarketData
    _dearest: dict[LaunchSpec, OfferPrice] = field(default_factory=dict)

    def of(self, scopes: Sequence[str], *, without: str = "") -> tuple[Account, ...]:
        """The accounts of those scopes that have limits; `without` is a lease not to count."""
        limits = self.state.settings.limits
        return tuple(
            self._account(scope, without) for scope in scopes if limits.of(scope).limits_starts
        )

    def prices_of(self, offers: Sequence[Offer]) -> tuple[OfferPrice, ...]:
        """What offers cost, and their GPUs."""
        return tuple(OfferPrice(x.usd_per_hour, self._gpus(x.instance_type)) for x in offers)

    def _account(self, scope: str, without: str) -> Account:
        state = self.state
        bounds = state.settings.limits.of(scope)
        mine = [
            lease
            for lease in state.leases.open()
            if lease.lease_id != without and scope in scopes_of(lease)
        ]
        days = state.spending.by_day(scope, state.leases) if bounds.days else {}
        prices = [self._price(lease) for lease in mine]
        held = [
            reservation(price.usd_per_hour or 0.0, price.gpus, self._reserved_seconds(lease))
            for lease, price in zip(mine, prices, strict=True)
        ]
        return Account(
            scope=scope,
            bounds=bounds,
            standings=standings(scope, bounds, days, state.spending.today()),
            servers=len(mine),
            rate=sum(nano(price.usd_per_hour or 0.0) for price in prices),
            reserved=sum(money for money, _ in held),
            reserved_gpu=sum(gpu for _, gpu in held),
        )

    def _price(self, lease: Lease) -> OfferPrice:
        """What a lease costs now; before it has an instance, the most that it may cost."""
        current = lease.segments[-1] if lease.segments else None
        if current is not None and current.end is None:
            return OfferPrice(assumed_usd_per_hour(current), current.gpus)
        if lease.spec not in self._dearest:
            prices = self.prices_of(self.market.offers.all_for(lease.spec))
            self._dearest[lease.spec] = OfferPrice(
                max((each.usd_per_hour or 0.0 for each in prices), default=0.0)
                or lease.spec.max_usd_per_hour,
                max((each.gpus for each in prices), default=0.0),
            )
        return self._dearest[lease.spec]

    def _reserved_seconds(self, lease: Lease) -> float:
        """What is left of its first hour."""
        if lease.state not in OPEN or lease.stop is not None:
            return 0.0
        now = self.state.clock.now()
        lasted = sum(microseconds for _, microseconds in durations(lease.segments, now)) / 1e6
        return max(reserved_seconds(lease) - lasted, 0.0)

    def _gpus(self, instance_type: str) -> float:
        kind = self.market.catalogue.types.get(instance_type)
        return float(kind.gpu_count or kind.gpu_partition) if kind else 0.0


def reserved_seconds(lease: Lease) -> float:
    """How long a start must be able to pay: an hour, or less where it may not run so long."""
    return min(FIRST_HOUR, lease.idle.max_age_seconds or FIRST_HOUR)

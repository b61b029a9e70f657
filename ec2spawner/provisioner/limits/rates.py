"""What scopes use in an hour at this moment: by servers, by homes, and without any server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...core.ledger import exact
from ...core.ledger.amount import Amount, assumed_per_hour
from ...core.ledger.charges import NO_PRICE, rate
from ...core.ledger.cost_rows import HUB
from ...core.ledger.local_days import midnight
from ...core.ledger.segments import Segment, assumed
from ...core.ledger.storage.costs import storage_nano_usd
from ..homes.storage_costs import usd_per_gib_month
from ..instances.unleased import retained_segments, unleased_segments
from ..model.leases.lease import Lease
from ..offers.market import MarketData
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State

HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)


def rate_of(lease: Lease, now: datetime) -> Amount:
    """What a lease uses in an hour: of money, and of GPUs."""
    return assumed_per_hour((each for each in lease.segments[-1:] if each.end is None), now)


@dataclass(frozen=True, slots=True)
class HubRate:
    """What everything that the hub pays for costs in an hour, homes and snapshots included."""

    usd: float
    """With list prices where prices are unknown."""
    known_usd: float
    """As far as prices are known: a lower bound where one is not."""
    unpriced: int
    """Prices for which there is no list price, either: `usd` lacks them, too."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a scope uses besides its leases. An unknown price is taken to be the list price."""

    state: State
    market: MarketData

    def without_lease(self, scope: str, now: datetime) -> Amount:
        """In an hour: what runs without a lease and, of the hub, the disks of what is kept
        stopped."""
        state, prices = self.state, self.market.prices
        if scope == HUB:
            return assumed_per_hour(unleased_segments(state, prices, now), now)
        return assumed_per_hour(retained_segments(state, prices, now, scope), now)

    async def of_hub(self, now: datetime) -> HubRate:
        """Everything together."""
        usd = known_usd = exact.usd(self.storage(HUB).nano_usd)
        unpriced = self._unpriced_storage()
        unleased = unleased_segments(self.state, self.market.prices, now)
        async for segment in cooperatively([*self._leased(), *unleased]):  # of one moment
            known = likely = rate(segment, now) if segment else NO_PRICE
            if segment and known.unknown_prices_of:
                likely = rate(assumed(segment), now)
            usd += likely.known_usd_per_hour or 0.0
            known_usd += known.known_usd_per_hour or 0.0
            unpriced += len(likely.unknown_prices_of)
        return HubRate(usd, known_usd, unpriced)

    def _leased(self) -> Iterator[Segment | None]:
        """Of each open lease what it is paid for; None where nothing is known of its instance."""
        for lease in self.state.leases.open():
            if not lease.segments:
                yield from [None] if lease.instance_id else []
            elif lease.segments[-1].end is None:
                yield lease.segments[-1]

    def _unpriced_storage(self) -> int:
        prices, stored = self.market.prices.resources, self.state.home_storage.mib_of(HUB)
        return sum(usd_per_gib_month(prices, *each) is None for each, mib in stored.items() if mib)

    def storage(self, scope: str) -> Amount:
        """In an hour: homes and their snapshots, as far as their prices are known."""
        return self._storage(scope, HOUR)

    def unbooked_storage(self, scope: str, now: datetime) -> Amount:
        """What homes and their snapshots have cost today since the last write to the ledger."""
        state = self.state
        begun = midnight(state.spending.today(), state.settings.time_zone)
        since = max(state.home_storage.stored_until or now, begun)
        return self._storage(scope, max(now - since, timedelta()))

    def _storage(self, scope: str, duration: timedelta) -> Amount:
        prices, today = self.market.prices.resources, self.state.spending.today()
        seconds, nano_usd = duration // SECOND, 0
        for (resource, volume_type), mib in self.state.home_storage.mib_of(scope).items():
            price = usd_per_gib_month(prices, resource, volume_type)
            nano_usd += storage_nano_usd(mib * seconds, price, today) or 0
        return Amount(nano_usd, storage_nano_usd=nano_usd)

"""Prices by offer, refreshed in the background and never in the way of a start.

Spot prices come from EC2; on-demand prices from the bundled table, which is of one region. What
is not known stays unknown: no price of another region or zone stands in for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..core.money import Segment
from ..data import PRICES_REGION, PRICES_SOURCE, InstanceType
from ..wire import Market
from .cloud import Cloud, CloudError, Instance
from .settings import Settings

log = logging.getLogger(__name__)

REFRESH_TIMEOUT = 60.0
"""Seconds for one refresh of all spot prices."""


@dataclass(frozen=True, slots=True)
class Price:
    usd_per_hour: float
    source: str
    read_at: datetime | None
    """When we read that it was in force, UTC; None for a bundled price: its source has a date."""


class PriceBook:
    def __init__(
        self,
        cloud: Cloud,
        settings: Settings,
        types: Mapping[str, InstanceType],
        *,
        now: Callable[[], datetime],
        zones: Callable[[], Sequence[str]],
        changed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._settings = settings
        self._types = types
        self._now = now
        self._zones = zones
        """The availability zones of the configured subnets: a price of another buys nothing."""
        self._changed = changed
        self._spot: Mapping[tuple[str, str], float] = {}
        self._spot_read_at: datetime | None = None

    def price(self, market: Market, instance_type: str, zone: str) -> Price | None:
        if market is Market.ON_DEMAND:
            return self.on_demand(instance_type)
        usd = self._spot.get((instance_type, zone))
        return None if usd is None else Price(usd, "EC2 spot price history", self._spot_read_at)

    def on_demand(self, instance_type: str) -> Price | None:
        known = self._types.get(instance_type)
        if known is None or self._settings.region != PRICES_REGION:
            return None
        usd = known.on_demand_usd_per_hour
        return None if usd is None else Price(usd, PRICES_SOURCE, None)

    def cheapest(self, market: Market, instance_types: tuple[str, ...]) -> Price | None:
        """The lowest known price of these types in any of the configured zones."""
        if market is Market.ON_DEMAND:
            known = [self.on_demand(name) for name in instance_types]
        else:
            known = [
                self.price(market, name, zone)
                for name, zone in self._spot
                if name in instance_types
            ]
        return min((p for p in known if p), key=lambda price: price.usd_per_hour, default=None)

    def segment(self, instance: Instance, start: datetime, end: datetime | None = None) -> Segment:
        """Time of an instance at what it costs now, as far as that is known."""
        price = self.price(instance.market, instance.instance_type, instance.zone)
        return Segment(
            instance_id=instance.instance_id,
            market=instance.market,
            usd_per_hour=price.usd_per_hour if price else None,
            start=start,
            end=end,
            source=price.source if price else "",
        )

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._settings.price_interval)

    async def refresh(self) -> None:
        """Read all spot prices; a failure keeps the old ones with their age."""
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT):
                spot = await self._cloud.spot_prices(self._settings.price_types, self._zones())
        except (CloudError, TimeoutError) as error:
            log.warning("Reading spot prices failed, keeping the old ones: %s", error)
            return
        self._spot, self._spot_read_at = spot, self._now()
        self._changed()

"""Prices by offer, refreshed in the background so that no start waits for them.

Spot prices and their last seven days come from EC2, list prices from the Price List API or,
where that cannot be read, from the bundled table, which is of one region. What is not known stays
unknown: no price of another region or zone stands in for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from ...core.ledger.segments import Segment, filled_in
from ...core.ledger.spot_prices import after_stored, at_spot_prices
from ...core.pricing.beside import Beside
from ...core.pricing.discounts import Discount
from ...core.pricing.price_history import WEEK, PricePoint, merged, price_at
from ...core.pricing.resource_prices import HOURS_PER_MONTH, ResourcePrices
from ...core.profiles.profiles import InstanceType
from ...data import PRICES_REGION, PRICES_SOURCE, resource_prices
from ...wire import Market
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import STOPPED, Instance, InstanceState
from ..model.cloud.launch import LaunchSpec
from ..runtime.supervise import Supervised
from ..state.state import State
from .discount_coverage import Coverage
from .disks import Disks, snapshots_of
from .first_readings import FirstReadings

log = logging.getLogger(__name__)

REFRESH_TIMEOUT = 60.0
"""Seconds to read one kind of price."""

DAILY = timedelta(days=1)
"""Between readings of list prices and reservations: AWS changes them a few times a year."""

RETRY = timedelta(minutes=10)
"""Between readings after a failed one."""

OVERLAP = timedelta(hours=1)
"""How far the readings of spot prices overlap, because EC2 lists some prices late."""

SPOT_SOURCE = "EC2 spot price history"
LIST_SOURCE = "the AWS price list"
BLOCK_SOURCE = "paid in advance for its Capacity Block"


@dataclass(frozen=True, slots=True)
class Price:
    """A price in USD/hour with its source and age."""

    usd_per_hour: float
    source: str
    read_at: datetime | None
    """When the price was read, UTC. None for a bundled price, whose source names a date, and for a
    configured one."""


class PriceCache:
    """Spot, on-demand and reserved prices in USD/hour, read in the background."""

    def __init__(self, state: State, cloud: Cloud, types: Mapping[str, InstanceType]) -> None:
        """`types` is the bundled table."""
        self._state = state
        self._cloud = cloud
        self._types = types
        self._coverage = Coverage(state)
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self.first_readings = FirstReadings()
        self.readings = 0
        """Number of readings that were tried: without another one, no price has changed."""
        self._disks = Disks(state, cloud, self._wake.set)
        self._spot: Mapping[tuple[str, str], tuple[PricePoint, ...]] = {}
        self._spot_read_at: dict[str, datetime] = {}
        self._listed: dict[str, Price] = {}
        self._list_due: dict[str, datetime] = {}
        """Instance type -> when its list price is read next; without an entry, now."""
        self._reservations_due: datetime | None = None
        self._resources = resource_prices(state.settings.region)
        self._resources_due: datetime | None = None
        self._failing: dict[str, str] = {}
        """What could not be read last time -> the code of its error."""
        self._wanted.update(state.settings.want_types)

    # --- prices ---

    def price(self, market: Market, instance_type: str, zone: str) -> Price | None:
        """The current price without discounts; None is unknown."""
        if market is Market.ON_DEMAND:
            return self.on_demand(instance_type)
        usd = price_at(self.history(instance_type, zone), self._state.clock.now())
        return None if usd is None else Price(usd, SPOT_SOURCE, self._spot_read_at[instance_type])

    def on_demand(self, instance_type: str) -> Price | None:
        """The list price in the hub's region."""
        if instance_type in self._listed:
            return self._listed[instance_type]
        known = self._types.get(instance_type)
        if known is None or self._state.settings.region != PRICES_REGION:
            return None
        usd = known.on_demand_usd_per_hour
        return None if usd is None else Price(usd, PRICES_SOURCE, None)

    def history(self, instance_type: str, zone: str) -> Sequence[PricePoint]:
        """The spot prices of the last seven days, oldest first; empty while unknown."""
        return self._spot.get((instance_type, zone), ())

    @property
    def resources(self) -> ResourcePrices:
        """What disks, snapshots and public addresses cost in the hub's region."""
        return self._resources

    # --- discounts ---

    @property
    def discounts(self) -> Sequence[Discount]:
        """The configured ones and the account's reservations, those included that do not hold
        now."""
        return self._coverage.discounts

    def paid(self, instance_type: str, zone: str) -> Price | None:
        """The rate of the next on-demand instance if a discount has an unused place for it."""
        left = self._coverage.left(instance_type, zone)
        return self._rate(left[0]) if left else None

    def paid_left(self, instance_type: str, zone: str) -> int:
        """How many more on-demand instances discounts cover there.

        Zones share the places of a regional discount.
        """
        return sum(discount.count for discount in self._coverage.left(instance_type, zone))

    def unused_discounts(self) -> Sequence[Discount]:
        """What instances leave of the discounts, zonal ones first, with the number of unused places
        as its `count`."""
        return self._coverage.all_left()

    def price_of(self, instance: Instance, since: datetime | None = None) -> Price | None:
        """The current price of this instance, at the rate of its discount if it has one.

        As a price for the time from `since` on, by default from now: a discount that has begun
        later gives no rate to what was before. Discounts do not apply to Capacity Blocks.
        """
        if instance.in_block:
            return self.block_price(instance.reservation)
        discount = self._coverage.of(instance)
        if discount is not None and (since is None or discount.has_begun(since)):
            return self._rate(discount)
        return self.price(instance.market, instance.instance_type, instance.zone)

    def block_price(self, reservation_id: str) -> Price | None:
        """Of one place of a Capacity Block; None is unknown, or it is no block."""
        usd = self._state.blocks.usd_per_hour(reservation_id)
        return None if usd is None else Price(usd, BLOCK_SOURCE, None)

    def segment(self, instance: Instance, start: datetime, end: datetime | None = None) -> Segment:
        """Time of an instance at its current price, see `price_of`, if that is known."""
        price, listed = self.price_of(instance, start), self.on_demand(instance.instance_type)
        kind = self._types.get(instance.instance_type)
        gib = self._disks.gib_of(instance)
        return Segment(
            instance_id=instance.instance_id,
            market=instance.market,
            usd_per_hour=price.usd_per_hour if price else None,
            start=start,
            end=end,
            source=price.source if price else "",
            instance_type=instance.instance_type,
            zone=instance.zone,
            gpus=float(kind.gpu_count or kind.gpu_partition) if kind else 0.0,
            on_demand_usd_per_hour=listed.usd_per_hour if listed else None,
            disk_usd_per_month=None if gib is None else self.resources.disk_usd_per_month(gib),
            address_usd_per_hour=self._address_usd_per_hour(instance),
        )

    def in_force(
        self, segments: Sequence[Segment], stored: Sequence[Segment] = ()
    ) -> tuple[Segment, ...]:
        """The segments at the spot prices that were in force, as far as the history is known: see
        `at_spot_prices`. Before it the prices hold that were `stored` of the instance earlier, in
        order of time."""

        @cache  # both may have hundreds of segments
        def history(instance_type: str, zone: str) -> Sequence[PricePoint]:
            points = self.history(instance_type, zone)
            return after_stored(points, stored, (instance_type, zone)) if stored else points

        return at_spot_prices(segments, history, SPOT_SOURCE, self._state.clock.now())

    def is_read_since(self, instance_type: str, at: datetime) -> bool:
        """Whether the spot prices of a type that were in force until then have been read. EC2 lists
        some of them later."""
        read_at = self._spot_read_at.get(instance_type)
        return read_at is not None and read_at >= at

    def _address_usd_per_hour(self, instance: Instance) -> float | None:
        if instance.has_public_address:
            return self.resources.address_usd_per_hour
        # One that boots may still get one, and one that ended may have had one.
        is_without = instance.state is InstanceState.RUNNING or instance.state in STOPPED
        return 0.0 if is_without else None

    def shown_address_usd_per_hour(self, instance: Instance) -> float | None:
        """What its listing says of the time until now: EC2 shows no address before an instance
        runs nor after its end. None is unknown."""
        is_shown = instance.has_public_address or instance.state is InstanceState.RUNNING
        return self._address_usd_per_hour(instance) if is_shown else None

    @property
    def usual_address_usd_per_hour(self) -> float | None:
        """Of an instance that ended before a listing showed whether it had a public address: what
        those of this hub's instances cost, 0 where they have none; None while that is unknown."""
        price = self.resources.address_usd_per_hour
        listed = self._state.instances.listed.values()
        is_usual = price is None or any(each.has_public_address for each in listed)
        return price if is_usual else 0.0

    def completed(
        self, segments: Sequence[Segment], instance: Instance | None, spec: LaunchSpec
    ) -> tuple[Segment, ...]:
        """Segments of a lease that ends, those of its last instance with the prices of an address
        and of disks where these are not known yet.

        An address is priced as `instance` has one, or as usual; disks by the launch call, or where
        EC2 no longer lists the instance, by the lease's own `spec`: what serves a lease was
        launched with the same disks.
        """
        if not segments:
            return ()
        segments = self.in_force(segments)
        last = segments[-1]
        if last.address_usd_per_hour is None:
            usd = None if instance is None else self.shown_address_usd_per_hour(instance)
            usd = self.usual_address_usd_per_hour if usd is None else usd
            last = replace(last, address_usd_per_hour=usd)
        if last.disk_usd_per_month is None:
            gib = None if instance is None else self._disks.gib_of(instance)
            if gib is None and spec.image_id:  # one that was rebuilt from tags does not say it
                gib = self._disks.gib(spec.disk_gib, snapshots_of(spec))
            usd = None if gib is None else self.resources.disk_usd_per_month(gib)
            last = replace(last, disk_usd_per_month=usd)
        # Its own price may be a discount's that had not begun before.
        return filled_in([*segments[:-1], last], replace(last, usd_per_hour=None, source=""))

    def beside(self, root_gib: float, snapshots: Sequence[str]) -> Beside:
        """What comes with an instance that has such a root disk and data volumes, as far as it is
        known: the disks, and a public address where instances of this hub have one."""
        gib, resources = self._disks.gib(root_gib, snapshots), self.resources
        disks = resources.disk_usd_per_month(root_gib if gib is None else gib)
        address = self.usual_address_usd_per_hour
        return Beside((disks or 0.0) / HOURS_PER_MONTH, address or 0.0)

    def beside_spec(self, spec: LaunchSpec) -> Beside:
        """Prices of what comes with an instance of this spec."""
        return self.beside(spec.disk_gib, snapshots_of(spec))

    def disks_usd_per_hour(self, root_gib: float, snapshots: Sequence[str]) -> float | None:
        """The disks alone, in USD/hour of an average month; None while a size or the price is
        unknown."""
        gib = self._disks.gib(root_gib, snapshots)
        usd = None if gib is None else self.resources.disk_usd_per_month(gib)
        return None if usd is None else usd / HOURS_PER_MONTH

    def _rate(self, discount: Discount) -> Price:
        return Price(discount.usd_per_hour, discount.source, self._coverage.read_at(discount))

    # --- refresh ---

    def want(self, instance_types: Iterable[str]) -> None:
        """Keep the prices of these types fresh from now on; new ones are read at once."""
        names = set(instance_types)
        self.first_readings.begin(names - self._list_due.keys())
        if not names <= self._wanted:
            self._wanted |= names
            self._wake.set()

    async def run(self) -> None:
        """Refresh at the interval, and sooner for new types, until cancelled."""
        supervised = Supervised("Reading prices")
        while True:
            self._wake.clear()
            with supervised:
                await self.refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._state.settings.price_interval):
                    await self._wake.wait()

    async def refresh(self) -> None:
        """Read spot prices and what else is due. A failure keeps the old prices and their age."""
        now, known = self._state.clock.now(), self._wanted & self._spot_read_at.keys()
        if known:
            read_at = min(self._spot_read_at[name] for name in known)
            since = max(read_at - OVERLAP, now - WEEK)
            await self._read("spot prices", self._read_spot(known, since, now))
        if new := self._wanted - known:
            await self._read("spot prices of new types", self._read_spot(new, now - WEEK, now))
        if due := {name for name in self._wanted if self._list_due.get(name, now) <= now}:
            succeeded = await self._read("the price list", self._read_list(due, now))
            self._list_due.update(dict.fromkeys(due, now + (DAILY if succeeded else RETRY)))
        self.first_readings.end(known | new)
        if (self._resources_due or now) <= now:
            succeeded = await self._read("prices of disks and addresses", self._read_resources())
            self._resources_due = now + (DAILY if succeeded else RETRY)
        for what, reading in self._disks.unread():
            await self._read(what, reading)
        if (self._reservations_due or now) <= now:
            succeeded = await self._read("Reserved Instances", self._read_reservations(now))
            self._reservations_due = now + (DAILY if succeeded else RETRY)

    async def _read(self, what: str, reading: Coroutine[Any, Any, None]) -> bool:
        """Whether the reading succeeded. Repeated failures with the same code are logged once."""
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT):
                await reading
        except (CloudError, TimeoutError) as error:
            code = error.code if isinstance(error, CloudError) else "Timeout"
            level = logging.DEBUG if self._failing.get(what) == code else logging.WARNING
            self._failing[what] = code
            log.log(level, "Reading %s failed, keeping the old prices: %s", what, error or code)
            return False
        finally:
            self.readings += 1
        if self._failing.pop(what, None):
            log.info("Reading %s works again", what)
        self._state.wake()
        return True

    async def _read_spot(self, names: Iterable[str], since: datetime, now: datetime) -> None:
        """Replace the prices of these types: a pool that EC2 no longer lists loses its price."""
        names = frozenset(names)
        found = await self._cloud.spot_history(sorted(names), self._state.zones.all(), since)
        others = {pool: points for pool, points in self._spot.items() if pool[0] not in names}
        theirs = {
            pool: _continued(self._spot.get(pool, ()), points, now - WEEK)
            for pool, points in found.items()
        }
        self._spot = {**others, **theirs}
        self._spot_read_at.update(dict.fromkeys(names, now))

    async def _read_list(self, names: Iterable[str], now: datetime) -> None:
        found = await self._cloud.on_demand_prices(sorted(names))
        for name in names:
            self._listed.pop(name, None)
        self._listed |= {name: Price(usd, LIST_SOURCE, now) for name, usd in found.items()}

    async def _read_resources(self) -> None:
        listed = await self._cloud.resource_prices()
        self._resources = listed.or_else(resource_prices(self._state.settings.region))

    async def _read_reservations(self, now: datetime) -> None:
        self._coverage.learn(await self._cloud.reservations(), now)


def _continued(
    old: tuple[PricePoint, ...], new: tuple[PricePoint, ...], since: datetime
) -> tuple[PricePoint, ...]:
    """The old prices with the new ones; unchanged ones, which are most, are not merged."""
    if not old:
        return new
    unchanged = len(new) == 1 and new[0].usd_per_hour == old[-1].usd_per_hour
    return old if unchanged else merged(old, new, since)

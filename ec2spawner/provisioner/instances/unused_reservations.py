"""What the unused places of the hub's capacity reservations cost: overhead with its own cause."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from ...core.ledger.unused_places import (
    Places,
    UnusedPeriod,
    counted_until,
    of_block,
    priced,
    resumes,
    resumes_block,
)
from ...core.offers.capacity_blocks import reclaimed_at
from ...core.offers.reserved_capacity import CapacityReservation
from ...core.pricing.discounts import given_to_unused
from ..offers.market import MarketData
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.databases.database import StoreError
from .overhead import Overhead

log = logging.getLogger(__name__)

INTERVAL: Final = 300.0
"""Seconds of uptime between two times that all current periods are stored: one write each."""


@dataclass(slots=True)
class UnusedReservations:
    """Counts each reservation in periods that follow each other without a gap, a Capacity Block
    from its beginning to its end.

    The store knows up to when it was counted. What passed while no hub ran is counted from there,
    with the places as they are found then; what passed while a hub ran and did not use the
    reservation is not.
    """

    state: State
    market: MarketData
    overhead: Overhead
    tasks: TaskGroup
    _periods: dict[str, UnusedPeriod] = field(default_factory=dict)
    """By reservation."""
    _listed_first: set[str] | None = None
    """Reservations of this process's first listing that are not counted yet."""
    _left: dict[str, datetime] = field(default_factory=dict)
    """When this process stopped to count a reservation, UTC."""
    _resuming: set[str] = field(default_factory=set)
    """Reservations for which the store is being asked."""
    _stored_at: float = 0.0
    """Uptime in seconds."""
    _unsaved: dict[str, tuple[UnusedPeriod, datetime]] = field(default_factory=dict)
    """Periods to be stored, each up to when, by reservation and key; oldest first."""
    _is_storing: bool = False

    async def reconcile(self, now: datetime) -> None:
        """Never raises: periods are stored in the background."""
        if self.market.reserved.listed_at is None:
            return
        active = {each.reservation_id: each for each in self.market.reserved.active(now)}
        if self._listed_first is None:
            self._listed_first = set(active)
        # A block is paid from its beginning, whenever this process first sees it.
        new = {name for name, each in active.items() if each.is_block} - self._left.keys()
        self._listed_first = (self._listed_first | (new - self._periods.keys())) & active.keys()
        for gone in self._periods.keys() - active.keys():
            self._store(self._periods.pop(gone), now)
            self._left[gone] = now
        for name, places in self._places(active, now).items():
            self._count(active[name], places, now)
        uptime = self.state.clock.uptime()
        if self._periods and uptime - self._stored_at >= INTERVAL:
            self._stored_at = uptime
            for period in self._periods.values():
                self._store(period, now)

    def _count(self, reservation: CapacityReservation, places: Places, now: datetime) -> None:
        name = reservation.reservation_id
        period = self._periods.get(name)
        if period is not None:
            if reservation.is_block:  # it may have been extended
                period = replace(period, ends_at=reservation.ends_at)
            following = period.followed_by(places, now)
            self._periods[name] = following
            if following.since != period.since:
                self._store(period, now)
        elif self._listed_first is None or name not in self._listed_first:
            since = _since(reservation, self._left.pop(name, None), now, now)
            self._begin(reservation, places, since)
        elif name not in self._resuming:
            self._resuming.add(name)
            self.tasks.spawn(self._resume(reservation, places), f"unused places of {name}")

    def _begin(self, reservation: CapacityReservation, places: Places, since: datetime) -> None:
        name, kind, zone = (
            reservation.reservation_id,
            reservation.instance_type,
            reservation.zone,
        )
        end = reservation.ends_at if reservation.is_block else None
        self._periods[name] = UnusedPeriod(name, kind, zone, since, places, end)

    async def _resume(self, reservation: CapacityReservation, places: Places) -> None:
        """Of an earlier process."""
        name = reservation.reservation_id
        try:
            last = await self.overhead.store.ledger.last_overhead(name)
            counted = counted_until(*last) if last is not None else None
            ran_until, now = self.state.earlier_ran_until, self.state.clock.now()
            since = _since(reservation, counted, ran_until, now)
            if self._listed_first is not None and name in self._listed_first:
                self._begin(reservation, places, since)
                self._listed_first.discard(name)
        except StoreError as error:  # a later pass asks again
            log.warning("Up to when %s was counted is not known yet: %s", name, error)
        finally:
            self._resuming.discard(name)

    def _places(
        self, active: Mapping[str, CapacityReservation], now: datetime
    ) -> Mapping[str, Places]:
        """What the unused places of each cost now; a place of a discount is given to one only.

        Of unknown price while listings fail for long: whether it still exists is not known. A block
        does until its end.
        """
        on_demand = {name: each for name, each in active.items() if not each.is_block}
        unused, prices = self.market.reserved.unused(now), self.market.prices
        wanted = [(each.instance_type, each.zone, unused[name]) for name, each in on_demand.items()]
        found: dict[str, Places] = {}
        for name, (kind, _, count), discounted in zip(
            on_demand, wanted, given_to_unused(wanted, prices.unused_discounts()), strict=True
        ):
            found[name] = priced(count, self._listed_usd(kind), self._gpus(kind), discounted)
        if not self.market.reserved.is_current:
            found = {name: replace(x, usd_per_hour=None) for name, x in found.items()}
        blocks = {name: each for name, each in active.items() if each.is_block}
        return found | {name: self._of_block(x, unused[name], now) for name, x in blocks.items()}

    def _of_block(self, block: CapacityReservation, unused: int, now: datetime) -> Places:
        """Paid already, whether it is still listed or not. When EC2 reclaims its instances, all
        that they leave is unused, whatever it lists."""
        reclaimed, kind = reclaimed_at(block), block.instance_type
        if reclaimed is not None and now >= reclaimed:
            unused = block.total - self.market.reserved.used_by_hub(block.reservation_id)
        return of_block(unused, block.usd_per_hour, self._listed_usd(kind), self._gpus(kind))

    def _listed_usd(self, instance_type: str) -> float | None:
        listed = self.market.prices.on_demand(instance_type)
        return listed.usd_per_hour if listed else None

    def _gpus(self, instance_type: str) -> float:
        facts = self.market.catalogue.types.get(instance_type)
        return float(facts.gpu_count or facts.gpu_partition) if facts else 0.0

    def _store(self, period: UnusedPeriod, until: datetime) -> None:
        """One write after the other: of two of one period, the later one must win."""
        self._unsaved[f"{period.reservation_id} {period.key}"] = period, until
        if not self._is_storing:
            self._is_storing = True
            self.tasks.spawn(self._write(), "unused places")

    async def _write(self) -> None:
        try:
            while self._unsaved:
                period, until = self._unsaved.pop(next(iter(self._unsaved)))
                await self.overhead.of_unused_places(period, until)
        finally:
            self._is_storing = False


def _since(
    reservation: CapacityReservation,
    counted: datetime | None,
    ran_until: datetime | None,
    now: datetime,
) -> datetime:
    """Since when it is counted from now on; `counted` and `ran_until` as of `resumes`."""
    if reservation.is_block and reservation.begins_at is not None:
        return resumes_block(counted, reservation.begins_at, now)
    return resumes(counted, ran_until, now)

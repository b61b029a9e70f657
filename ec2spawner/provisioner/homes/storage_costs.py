"""What homes and their snapshots cost while they exist, also when nobody logs in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Final

from ...core.ledger import exact
from ...core.ledger.cost_rows import Resource
from ...core.ledger.local_days import local_day, split_by_day
from ...core.ledger.storage.held import Counted, Stored, begins_counting, held_between
from ...core.pricing.resource_prices import ResourcePrices
from ..model.cloud.volume import Volume, VolumeSnapshot
from ..state.spending.home_storage import mib_by_scope
from ..state.state import State
from ..store.store import Store
from .stored_homes import Owners, stored_homes, tags_without_record

WRITE_INTERVAL: Final = 3600.0
"""Seconds of uptime between two writes to the ledger: one transaction of two lines per home."""

PRICE_GRACE: Final = 3600.0
"""Seconds for which a write waits for prices that are not known yet. After that the lines are
written without, and later writes no longer wait for the same prices: some never become known, such
as those of volume types that the hub never makes."""


@dataclass(slots=True)
class StorageCosts:
    """Counts what each scan finds, in periods that follow each other without a gap.

    The store remembers up to when it has counted. What a hub has not written, or not seen because
    it did not run, the next scan counts from there: from EC2's creation times, as far as it still
    exists.
    """

    state: State
    store: Store
    prices: Callable[[], ResourcePrices]
    _waiting: deque[Counted] = field(default_factory=deque)
    """Oldest first, each within one day. All but the last may have been written, if the store's
    response was lost: they are repeated as they are."""
    _is_counting: bool = False
    _is_last_open: bool = False
    """Whether the last of them may still be extended."""
    _counted_until: datetime | None = None
    _write_due: float | None = None
    """Uptime of the next write in seconds; None before the first scan."""
    _written_unpriced: Collection[tuple[Resource, str]] = frozenset()
    """Resources, by volume type, whose price was unknown in the last write."""

    async def count(
        self, volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot], listed_at: datetime
    ) -> None:
        """Count up to `listed_at`, when both complete listings of the hub began.

        Does nothing while another count is in progress: the next one includes it.
        """
        if self._is_counting:
            return
        self._is_counting = True
        try:
            await self._count(volumes, snapshots, listed_at)
            await self._write_if_due()
        finally:
            self._is_counting = False

    async def _count(
        self, volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot], listed_at: datetime
    ) -> None:
        storage, place = self.state.home_storage, self._place
        until = listed_at.replace(microsecond=0)
        since = self._counted_until or storage.stored_until or begins_counting(until, place)
        existing = await self._existing(volumes, snapshots)
        listed = {each.resource_id for each in existing}
        gone = [
            replace(each, ended_at=until)  # EC2 does not say when
            for each in storage.existing.values()
            if each.resource_id not in listed
        ]
        parts = await asyncio.to_thread(_by_day, [*existing, *gone], since, until, place)
        for part in parts:
            self._add(part)
        self._counted_until = max(since, until)
        storage.found(existing, await asyncio.to_thread(mib_by_scope, existing))

    async def _existing(
        self, volumes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot]
    ) -> list[Stored]:
        """What is billed."""
        homes = self.state.homes
        recorded = {home.home_id: home for home in (*homes.live(), *homes.leaving())}
        tags = await asyncio.to_thread(tags_without_record, volumes, snapshots, recorded)
        tagged = self.state.accounts.tagged(tags)
        users = {*(home.user for home in recorded.values()), *tagged.values()}
        owners = Owners(self.state.store_id, recorded, tagged, homes.payers_of(users))
        return await asyncio.to_thread(lambda: list(stored_homes(volumes, snapshots, owners)))

    def _add(self, part: Counted) -> None:
        """Extend the open period of the same day, or begin another one."""
        last, place = self._waiting[-1] if self._is_last_open else None, self._place
        if last is None or local_day(last.since, place) != local_day(part.since, place):
            self._waiting.append(part)
        else:
            keys = last.held.keys() | part.held.keys()
            held = {key: last.held.get(key, 0) + part.held.get(key, 0) for key in keys}
            self._waiting[-1] = Counted(last.since, part.until, held)
        self._is_last_open = True

    @property
    def _place(self) -> tzinfo:
        return self.state.settings.time_zone

    async def _write_if_due(self) -> None:
        """Raises `StoreError`; the next count repeats it."""
        uptime = self.state.clock.uptime()
        if self._write_due is None:
            self._write_due = uptime
        kinds = {(key.resource, key.volume_type) for each in self._waiting for key in each.held}
        listed = self.prices()
        prices = {kind: usd_per_gib_month(listed, *kind) for kind in kinds}
        unpriced = {kind for kind, price in prices.items() if price is None}
        waits = PRICE_GRACE if unpriced.difference(self._written_unpriced) else 0.0
        if uptime < self._write_due + waits:
            return
        self._is_last_open = False
        while self._waiting:
            counted = self._waiting[0]
            sums = await asyncio.shield(self.store.ledger.add_storage(counted, prices))
            await self.state.spending.count_storage(sums)
            self.state.home_storage.stored_until = counted.until
            self._waiting.popleft()
        self._written_unpriced = unpriced
        self._write_due = uptime + WRITE_INTERVAL


def usd_per_gib_month(prices: ResourcePrices, resource: Resource, volume_type: str) -> float | None:
    """The price of a home or a snapshot; None where it is unknown, as of volumes of a type that the
    hub never makes."""
    if resource is Resource.SNAPSHOT:
        return prices.snapshot_usd_per_gib_month
    return prices.volume_usd_per_gib_month(volume_type)


def _by_day(
    stored: Sequence[Stored], since: datetime, until: datetime, place: tzinfo
) -> list[Counted]:
    """What they held, in periods within one day each. A period without anything also moves
    the count forward."""
    days = split_by_day(exact.microseconds(since), exact.microseconds(until), place)
    return [
        Counted(start, end, held_between(stored, start, end, place))
        for start, end in (
            (exact.instant(begin), exact.instant(finish)) for _, begin, finish in days
        )
    ]

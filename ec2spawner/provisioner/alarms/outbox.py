"""Alarms on their way to their destinations: in the store until each has confirmed them.

Who raises an alarm waits for the store, and for no destination. Who sends them is not the
provisioner's matter: it takes what is due, and reports what became of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from ...core.alarms.alarm import Alarm, AlarmRules, Kind
from ...core.alarms.grouping import HOUR, rests
from ..model import metrics
from ..model.alarm_delivery import AlarmDelivery
from ..store.store import Store

log = logging.getLogger(__name__)

KEPT: Final = timedelta(days=90)
"""How long alarms stay in the store. Longer than any period within which one is not repeated."""

GROUPED_FOR: Final = timedelta(days=1)
"""How far back grouped alarms are looked for: a hub that was down for a night reports them."""

MAX_SEEN: Final = 10_000
"""Ids in memory, so that what persists does not ask the store each minute."""


class Outbox:
    """Raises alarms once, and remembers who has not got them."""

    def __init__(self, store: Store, rules: AlarmRules, destinations: Sequence[str]) -> None:
        """`destinations` are the names of those that alarms are sent to; none raises nothing."""
        self.rules = rules
        self.destinations = tuple(destinations)
        self._store = store
        self._seen: set[str] = set()
        self._waiting: dict[str, list[AlarmDelivery]] = {name: [] for name in self.destinations}
        """By destination, oldest first."""
        self._kept_up: datetime | None = None
        """The hour of the last upkeep."""
        self._changed = asyncio.Event()
        """Set and replaced when deliveries are added."""

    async def load(self, now: datetime) -> None:
        """Take up what an earlier process has not delivered. Raises `StoreError`."""
        if not self.destinations:
            return
        for delivery in await self._store.alarms.undelivered():
            if delivery.destination in self._waiting:
                self._waiting[delivery.destination].append(delivery)
            else:
                log.warning(
                    "%s is no destination of alarms any more; it does not get “%s”",
                    delivery.destination,
                    delivery.alarm.title,
                )
                await self._store.alarms.save_delivery(delivery, now)

    # --- raising ---

    def raises(self, kind: Kind) -> bool:
        """Whether alarms of this kind are sent to anybody."""
        return bool(self.destinations) and kind in self.rules.kinds

    async def add(self, alarms: Sequence[Alarm]) -> None:
        """Raise those of the configured kinds that were not raised before. Raises `StoreError`."""
        new = [
            alarm
            for alarm in alarms
            if self.raises(alarm.kind) and alarm.alarm_id not in self._seen
        ]
        if not new:
            return
        added = await self._store.alarms.add(new, self.rules.per_hour, self.destinations)
        if len(self._seen) > MAX_SEEN:
            self._seen.clear()
        self._seen.update(alarm.alarm_id for alarm in new)
        for each in added:
            metrics.ALARMS.labels(each.alarm.kind).inc()
            log.info("Alarm (%s): %s", each.alarm.kind, each.alarm.title)
            for name in () if each.grouped else self.destinations:
                self._waiting[name].append(AlarmDelivery(each.alarm, name))
        self._announce()

    async def upkeep(self, now: datetime) -> None:
        """Once in each hour, raise one alarm for those of each past hour that were too many, and
        forget old ones. Raises `StoreError`."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        if hour == self._kept_up:
            return
        await self.add(tuple(rests(await self._store.alarms.since(now - GROUPED_FOR), now)))
        await self._store.alarms.forget(now - KEPT)
        self._kept_up = hour

    async def last_raised(self, kind: str, since: datetime) -> datetime | None:
        """When an alarm of the kind was raised last, of `since` or later. Raises `StoreError`."""
        found = await self._store.alarms.since(since)
        return max((each.alarm.at for each in found if each.alarm.kind == kind), default=None)

    # --- delivering ---

    def due(self, destination: str, now: datetime) -> AlarmDelivery | None:
        """The oldest delivery to a destination whose time has come."""
        return next(
            (
                each
                for each in self._waiting[destination]
                if each.next_at is None or each.next_at <= now
            ),
            None,
        )

    def oldest(self) -> Mapping[str, datetime | None]:
        """By destination, when the oldest alarm that it has not confirmed was raised."""
        return {
            name: min((each.alarm.at for each in waiting), default=None)
            for name, waiting in self._waiting.items()
        }

    async def wait(self, destination: str, now: datetime) -> None:
        """Return when a delivery to the destination may be due, or is added."""
        waits = [
            (each.next_at - now).total_seconds() if each.next_at else 0.0
            for each in self._waiting[destination]
        ]
        pause = min(waits, default=HOUR.total_seconds())
        changed = self._changed
        with suppress(TimeoutError):
            async with asyncio.timeout(max(pause, 0.0)):
                await changed.wait()

    async def done(self, delivery: AlarmDelivery, at: datetime) -> None:
        """The destination has confirmed it, or it is given up; never sent again."""
        waiting = self._waiting[delivery.destination]
        waiting[:] = [each for each in waiting if each.alarm != delivery.alarm]
        await self._save(delivery, at)

    async def failed(self, delivery: AlarmDelivery, next_at: datetime) -> None:
        """It was not accepted; try again at `next_at`, UTC."""
        metrics.ALARMS_NOT_ACCEPTED.inc()
        tried = replace(delivery, attempts=delivery.attempts + 1, next_at=next_at)
        waiting = self._waiting[delivery.destination]
        waiting[:] = [tried if each.alarm == delivery.alarm else each for each in waiting]
        await self._save(tried, None)

    async def _save(self, delivery: AlarmDelivery, done_at: datetime | None) -> None:
        """Now or with a later pass: what was sent must not be sent again after a restart."""
        subject = f"alarm {delivery.alarm.alarm_id} to {delivery.destination}"
        write = partial(self._store.alarms.save_delivery, delivery, done_at)
        await self._store.write_behind.now_or_later(subject, write)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

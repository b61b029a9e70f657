"""The pass: keeps instances and leases in step with what the cloud shows.

Level-triggered. A pass looks at the waiting list, the last listing and the calls under way,
and does what is missing; nothing is remembered as a step. Everything may be killed between any
two lines: the next pass, or the next process, goes on from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ..core.instances.matching import balance
from ..core.pricing import money
from ..wire import Stop
from .homes.placement import Placement
from .homes.snapshots import HomeSnapshots
from .homes.zone_migration import ZoneMigrations
from .instances.claims import Claims
from .instances.inventory import Inventory
from .launch.controller import LaunchController
from .lifecycle.heartbeat import Heartbeats
from .lifecycle.home_attachment import HomeAttachment
from .lifecycle.instance_loss import InstanceLoss
from .lifecycle.recovery import Recovery
from .lifecycle.start import Start
from .lifecycle.start_timeout import StartTimeouts
from .lifecycle.tagging import Tagging
from .lifecycle.termination import Termination
from .model import metrics
from .model.cloud import CloudError
from .model.launch_key import launch_key_of
from .model.lease import Lease, LeaseState
from .model.settings import Settings
from .offers.prices import PriceCache
from .retention.retention import Retention
from .runtime.uptime_clock import UptimeClock
from .state.instance_cache import InstanceCache
from .state.launches import Launches
from .state.lease_registry import LeaseRegistry
from .state.spending import Spending
from .store.store import Store, StoreError

log = logging.getLogger(__name__)

PASS_INTERVAL = 5.0
"""Seconds between two passes at most; events and deadlines make them sooner."""

SHORTEST_WAIT = 0.25
"""Seconds between two passes at least, when a deadline is all that there is."""

RECKONED_AT_ONCE = 100
"""After so many servers, whatever else waits has its turn. To reckon when one ends takes up to 0.1
ms, where working hours decide and nothing is known from the pass before."""

INTENTS_KEPT = timedelta(hours=1)
"""Launch calls that were answered stay in memory so long, and while an instance carries them."""

ENDED_KEPT = timedelta(minutes=10)
"""Ended leases stay in memory so long: a late beat is answered 410 instead of 404."""


@dataclass(eq=False)
class Reconciler:
    """Passes, one after the other: it decides when each part does what is missing."""

    settings: Settings
    now: Callable[[], datetime]
    uptime: UptimeClock
    woken: asyncio.Event
    """Set by whoever wants a pass to begin now."""
    store: Store
    registry: LeaseRegistry
    instance_cache: InstanceCache
    placement: Placement
    prices: PriceCache
    launches: Launches
    claims: Claims
    inventory: Inventory
    retention: Retention
    ending: Termination
    home_attachment: HomeAttachment
    zone_migrations: ZoneMigrations
    home_snapshots: HomeSnapshots
    starting: Start
    start_timeouts: StartTimeouts
    launch: LaunchController
    labels: Tagging
    heartbeats: Heartbeats
    recovery: Recovery
    instance_loss: InstanceLoss
    spending: Spending
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    passed_at: float | None = None
    """When the last pass went through, in seconds awake."""

    async def run(self) -> None:
        while not await self.instance_cache.first_listing(timeout=PASS_INTERVAL):
            log.info("Waiting for the first complete listing of instances")
        while True:
            self.woken.clear()
            pause = PASS_INTERVAL
            try:
                with metrics.PASS_SECONDS.time(), metrics.PASSES_FAILED.count_exceptions():
                    await self.reconcile()
                self.passed_at = self.uptime()
                pause = self._until_next_deadline()
            except (CloudError, StoreError) as error:
                log.error("Reconciling: %s", error)
            except Exception:
                log.exception("A reconcile pass failed; the next one goes on")
            # Not `wait_for`: on Python 3.11 that can swallow a cancellation, here and elsewhere.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.woken.wait()
            await asyncio.sleep(self.settings.batch_window)

    async def reconcile(self) -> None:
        """One pass: look at everything once, and do what is missing."""
        set_by = self.uptime.tick()
        self.heartbeats.clock_was_set(set_by)
        self.retention.clock_was_set(set_by)
        now = self.now()
        self.ending.resume()  # what was decided goes on whatever the store says
        await self.store.hold()  # or another hub may be at work here
        await self.registry.save_again()
        await self.store.write_behind.again()
        self.spending.follow(self.spawn_task)
        self.registry.forget_ended(now - ENDED_KEPT)
        await self.instance_loss.follow()
        self.instance_loss.replace_stillborn()
        self.start_timeouts.end_what_is_late()
        await self._follow_homes()
        await self._end_what_is_due(now)
        await self.retention.follow(now)
        self._forget_gone(now)
        await self._balance(now)
        self.labels.follow()
        self.home_attachment.follow(self.instance_cache.instances)
        self.zone_migrations.follow()
        self.home_snapshots.follow()
        await self._reprice(now)

    async def _follow_homes(self) -> None:
        """A lease that waits while its home is being made is bound to the zone of that."""
        for lease in self.registry.open(LeaseState.WAITING):
            subnets = self.placement.subnets_for(lease.user, lease.server)
            if lease.home_kind != "ebs" or not subnets or subnets == lease.spec.subnets:
                continue
            spec = replace(lease.spec, subnets=subnets)
            await self.registry.change(lease.lease_id, spec=spec, launch_key=launch_key_of(spec))

    async def _end_what_is_due(self, now: datetime) -> None:
        silent: list[tuple[Lease, Stop]] = []
        ready = [lease.lease_id for lease in self.registry.open(LeaseState.READY)]
        for number, lease_id in enumerate(ready):
            if number % RECKONED_AT_ONCE == 0:
                await asyncio.sleep(0)
            lease = self._due(lease_id, now)
            if lease is None:
                continue
            stop = self.heartbeats.why(lease, now)
            if stop.reason == "lost":
                silent.append((lease, stop))
            else:
                await self.ending.begin(lease_id, stop)
        silent_ends = self.recovery.braked(silent, "their agents are silent")
        unclaimed = self.recovery.unclaimed()
        for lease, stop in silent_ends:
            if self._due(lease.lease_id, now) is not None:
                await self.ending.begin(lease.lease_id, stop)
        for lease, stop in unclaimed:
            if self.recovery.is_unclaimed(lease.lease_id):
                await self.ending.begin(lease.lease_id, stop)

    def _due(self, lease_id: str, now: datetime) -> Lease | None:
        """A server that must end, as it is by now: while a pass ended others it may have been
        extended, or its agent heard. Then None."""
        lease = self.registry.get(lease_id)
        if lease is None or lease.state is not LeaseState.READY:
            return None
        return lease if self.heartbeats.due(lease, now) <= now else None

    def _forget_gone(self, now: datetime) -> None:
        """What no listing shows and no lease holds: nothing grows for as long as the hub runs."""
        self.inventory.forget_old()
        leased = {lease.instance_id for lease in self.registry.open() if lease.instance_id}
        self.claims.forget_gone(self.instance_cache.instances.keys() | leased)
        self.launches.forget_old(now - INTENTS_KEPT, now)

    async def _reprice(self, now: datetime) -> None:
        for lease in self.registry.open(LeaseState.STARTING, LeaseState.READY):
            instance = self.instance_cache.instance_of(lease)
            if instance is None or self.registry.get(lease.lease_id) is not lease:
                continue
            price = self.prices.price_of(instance)
            if price is None:
                continue
            segments = money.reprice(lease.segments, now, price.usd_per_hour, price.source)
            if segments != lease.segments:
                await self.registry.change(lease.lease_id, segments=segments)
                self.registry.tell_agent(lease.lease_id)

    async def _balance(self, now: datetime) -> None:
        """Launch what is missing, terminate what nobody needs."""
        while tokens := self.launches.unknown_tokens(self.instance_cache.instances.values()):
            await self.launches.look_up(tokens)
        stock = self.inventory.take_stock()
        result = balance(self.starting.needs(), stock.supplies)
        missing, unneeded = frozenset(result.missing), frozenset(result.surplus)
        self.start_timeouts.never_spoke(stock.silent, missing)
        listed = self.instance_cache.instances
        surplus = [listed[supply_id] for supply_id in result.surplus if supply_id in listed]
        unknown = self.recovery.unknown(stock.unknown)
        self.instance_loss.on_offer = frozenset(supply.supply_id for supply in stock.supplies)
        failures = self.launch.reconcile(missing - self.starting.judged, now)
        for lease, stop in failures:
            # While the end of another one was stored, this one may have got an instance.
            current = self.registry.get(lease.lease_id)
            if current is not None and current.state is LeaseState.WAITING:
                await self.ending.begin(lease.lease_id, stop)
        for supply in stock.supplies:
            if supply.supply_id in listed and supply.supply_id not in unneeded:
                self.claims.wake(supply.supply_id)
        await self.ending.terminate_unleased([*stock.dead, *surplus, *unknown])

    def _until_next_deadline(self) -> float:
        now = self.now()
        dues = [self.heartbeats.due(lease, now) for lease in self.registry.open(LeaseState.READY)]
        seconds = [(due - now).total_seconds() for due in dues]
        return min([PASS_INTERVAL, *(max(left, SHORTEST_WAIT) for left in seconds if left > -1)])

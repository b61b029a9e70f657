"""The provisioner of one hub: its parts, wired together, from the hub's start to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from ..data import InstanceType
from ..wire import Step, Stop
from .garbage_collection import GarbageCollection
from .homes.placement import Placement
from .homes.snapshots import HomeSnapshots
from .homes.volumes import Homes
from .homes.zone_migration import ZoneMigrations
from .instances.claims import Claims
from .instances.inventory import Inventory
from .launch.controller import LaunchController
from .launch.fleet_calls import FleetCalls
from .launch.spot_waits import SpotWaits
from .lifecycle.heartbeat import Heartbeats
from .lifecycle.home_attachment import HomeAttachment
from .lifecycle.instance_loss import InstanceLoss
from .lifecycle.recovery import Recovery
from .lifecycle.start import Start
from .lifecycle.start_timeout import StartTimeouts
from .lifecycle.tagging import Tagging
from .lifecycle.termination import Termination
from .lifecycle.unhealthy_instance import UnhealthyInstances
from .model.cloud import Cloud
from .model.lease import (
    IntentState,
    Lease,
    LeaseState,
    StepEvent,
)
from .model.settings import Settings
from .offers.images import ImageCache
from .offers.instance_types import Catalogue
from .offers.offers import Offers
from .offers.prices import PriceCache
from .reconciler import Reconciler
from .retention.restart import RetainedRestarts
from .retention.retention import Retention
from .runtime.task_group import Background
from .runtime.uptime_clock import UptimeClock
from .state.instance_cache import InstanceCache
from .state.launches import Launches
from .state.lease_registry import LeaseRegistry
from .state.spending import Spending
from .state.start_durations import StartDurations
from .store.store import Store, StoreError


class Provisioner:
    """Instances and leases of one hub. Holds no object of JupyterHub."""

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        settings: Settings,
        types: Mapping[str, InstanceType],
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        ended: Callable[[Lease], None] = lambda lease: None,
    ) -> None:
        self.settings = settings
        self.now = now
        self.uptime = uptime = UptimeClock(now, monotonic)
        self._cloud = cloud
        self._store = store
        self._wake = asyncio.Event()
        self.listed_at: float | None = None
        """When the last listing was complete, in seconds awake."""
        self.background = background = Background()
        self.start_durations = StartDurations(store, background.spawn)
        self.homes = homes = Homes(cloud, store, settings, now=now)
        self.placement = placement = Placement(cloud, settings, homes)

        self.spending = spending = Spending(store, now=now)
        store.overhead_told = spending.count_overhead
        self.registry = registry = LeaseRegistry(store, now=now, forgotten=spending.forgotten)
        self.instance_cache = instance_cache = InstanceCache(
            cloud, settings, in_motion=self._in_motion, listed=self._on_listed
        )
        self.images = ImageCache(cloud, settings.image, now=now)
        self.catalogue = Catalogue(cloud, types, settings, now=now, zones=placement.zones)
        self.catalogue.want(settings.want_types)
        self.prices = prices = PriceCache(
            cloud,
            settings,
            types,
            now=now,
            zones=placement.zones,
            changed=self.wake,
            running=lambda: self.inventory.running(),
            discounts=settings.discounts,
        )
        self.offers = Offers(self.catalogue, prices, now=now, subnets=lambda: placement.by_subnet)
        self.launches = launches = Launches(store, instance_cache)
        self.claims = claims = Claims(
            store,
            instance_cache,
            launches,
            settings,
            now=now,
            uptime=uptime,
            kept=lambda instance_id: self.retention.get(instance_id),
        )
        self.inventory = Inventory(
            registry,
            claims,
            launches,
            instance_cache,
            settings,
            store.store_id,
            placement.zones_of,
            uptime,
            lambda instance_id: self.retention.holds(instance_id),
        )
        self.retention = retention = Retention(
            registry=registry,
            store=store,
            cloud=cloud,
            instance_cache=instance_cache,
            claims=claims,
            prices=prices,
            settings=settings,
            now=now,
            uptime=uptime,
            need_of=lambda lease: self.starting.need_of(lease),
            terminate=lambda instance_ids: self.ending.terminate(instance_ids),
            starts=RetainedRestarts(
                registry=registry,
                cloud=cloud,
                instance_cache=instance_cache,
                fail=lambda lease_id, stop: self.ending.begin(lease_id, stop),
                learn=self.offers.learn_of_start,
            ),
            fail=lambda lease_id, stop: self.ending.begin(lease_id, stop),
            spawn_task=background.spawn,
        )
        self.ending = Termination(
            registry=registry,
            store=store,
            cloud=cloud,
            claims=claims,
            homes=homes,
            retention=retention,
            prices=prices,
            instance_cache=instance_cache,
            settings=settings,
            now=now,
            spawn_task=background.spawn,
            wake=self.wake,
            ended=ended,
        )
        self.home_attachment = HomeAttachment(
            registry=registry,
            claims=claims,
            homes=homes,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.zone_migrations = ZoneMigrations(
            cloud=cloud,
            homes=homes,
            registry=registry,
            settings=settings,
            store_id=store.store_id,
            now=now,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.home_snapshots = HomeSnapshots(
            cloud=cloud,
            homes=homes,
            settings=settings,
            store_id=store.store_id,
            now=now,
            uptime=uptime,
            spawn_task=background.spawn,
        )
        self.starting = Start(
            registry=registry,
            claims=claims,
            homes=homes,
            home_attachment=self.home_attachment,
            retention=retention,
            prices=prices,
            store=store,
            now=now,
            zones_of=placement.zones_of,
            supplies=self.inventory.supplies,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            stopped=self.ending.agent_stopped,
            wake=self.wake,
            uptime=uptime,
        )
        self.broken = UnhealthyInstances(
            registry=registry,
            claims=claims,
            retention=retention,
            starting=self.starting,
            settings=settings,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.start_timeouts = StartTimeouts(
            registry=registry,
            cloud=cloud,
            starting=self.starting,
            settings=settings,
            uptime=uptime,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.waits = SpotWaits(registry, launches, self._wake)
        self.launch = LaunchController(
            registry,
            self.offers,
            launches,
            FleetCalls(cloud, store, launches, self.images, settings, now),
            background,
            self._wake,
        )
        self.labels = labels = Tagging(
            registry, cloud, instance_cache, store.store_id, background.spawn
        )
        self.heartbeats = heartbeats = Heartbeats(
            registry, prices, settings, now, uptime, self.wake, spending
        )
        self.recovery = recovery = Recovery(
            registry, instance_cache, homes, prices, settings, now, uptime
        )
        self.garbage_collection = GarbageCollection(
            cloud, settings, store.store_id, homes.volume_ids, now, uptime
        )
        self.instance_loss = instance_loss = InstanceLoss(
            registry, instance_cache, claims, self.start_timeouts, self.ending, retention, recovery
        )
        self.reconciler = Reconciler(
            settings=settings,
            now=now,
            uptime=uptime,
            woken=self._wake,
            store=store,
            registry=registry,
            instance_cache=instance_cache,
            placement=placement,
            prices=prices,
            launches=launches,
            claims=claims,
            inventory=self.inventory,
            retention=retention,
            ending=self.ending,
            home_attachment=self.home_attachment,
            zone_migrations=self.zone_migrations,
            home_snapshots=self.home_snapshots,
            starting=self.starting,
            start_timeouts=self.start_timeouts,
            launch=self.launch,
            labels=labels,
            heartbeats=heartbeats,
            recovery=recovery,
            instance_loss=instance_loss,
            spending=spending,
            spawn_task=background.spawn,
        )

    # --- life ---

    async def start(self) -> None:
        """Read the store and begin to watch. Raises `StoreError`, `CloudError`."""
        snapshot = await self._store.load()
        await self.placement.load()
        self.registry.load(snapshot)
        self.spending.begin()
        self.claims.load(snapshot.bindings)
        self.homes.load(snapshot.homes)
        self.retention.load(snapshot.kept)
        waiting = list(self.registry.open(LeaseState.WAITING))
        self.launches.load(snapshot.intents, waiting, self.now())
        self.recovery.load(snapshot.leases)
        self.instance_cache.track(
            lease.instance_id for lease in snapshot.leases if lease.instance_id
        )
        self.ending.resume()
        self.background.spawn(self.instance_cache.run(), "watch")
        self.background.spawn(self.prices.run(), "prices")
        self.background.spawn(self.catalogue.run(), "catalogue")
        self.background.spawn(self._look_image_up(), "image")
        self.background.spawn(self.garbage_collection.run(), "reaper")
        self.background.spawn(self.garbage_collection.run_templates(), "templates")
        for intent in snapshot.intents:
            if intent.state is IntentState.OPEN:
                self.launch.replay(intent)
        self.background.spawn(self.reconciler.run(), "reconcile")

    async def close(self) -> None:
        """Stop watching. Instances and leases go on; the next process takes them up."""
        await self.background.end()
        await self.registry.drain()
        await self._store.write_behind.again()
        await self._store.close()

    def wake(self) -> None:
        """Let a pass begin now."""
        self._wake.set()

    # --- asking for a server ---

    async def request(self, lease: Lease) -> None:
        """Put a lease on the waiting list.

        Raises `StoreError` where it cannot be stored; then it ends at once, and nothing is bought.
        """
        begun = StepEvent(Step.REQUEST, self.now(), "Looking for a machine")
        self.prices.want(lease.spec.instance_types)
        self.catalogue.want(lease.spec.instance_types)
        try:
            await self.registry.add(replace(lease, events=(begun,)))
        except StoreError:
            stop = Stop(reason="failed", message="The hub could not write its database")
            await self.ending.begin(lease.lease_id, stop)
            raise
        self.inventory.wake_claim_for(self.starting.need_of(lease))
        for retained in self.retention.of_server(lease.user, lease.server):
            self.claims.wake(retained.instance_id)
        self.wake()

    async def agent_stopped(self, lease: Lease, message: str) -> None:
        """The agent of a lease reports that it has ended, asked for or not.

        During a start its instance is shutting down: the lease gets another one.
        """
        current = self.registry.get(lease.lease_id) or lease
        if current.state is LeaseState.STARTING and current.instance_id == lease.instance_id:
            self.start_timeouts.ended(current, None)
            return
        await self.ending.begin(lease.lease_id, Stop(reason="failed", message=message))
        self.ending.agent_stopped(lease)

    # --- what the parts tell each other ---

    def _in_motion(self) -> bool:
        """True while something starts or ends, so that listings are worth their call."""
        moving = self.registry.open(LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING)
        return (
            any(True for _ in moving)
            or bool(self.launches.rounds or self.launches.expected)
            or any(self._may_be_gone(lease) for lease in self.registry.open(LeaseState.READY))
        )

    def _may_be_gone(self, lease: Lease) -> bool:
        """True for a server that is checked after the hub's start, and that EC2 does not list."""
        unheard = not self.registry.contact(lease.lease_id).heartbeats
        return unheard and self.instance_cache.is_missing(lease.instance_id or "")

    def _on_listed(self) -> None:
        self.listed_at = self.uptime()
        self.wake()

    async def _look_image_up(self) -> None:
        """Before anybody waits for it."""
        await self.images.current()

"""The provisioner of one hub: its parts, wired together, from the hub's start to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from ..core.instances.matching import balance
from ..data import InstanceType
from ..wire import Step, Stop
from .garbage_collection import Reaper
from .homes.placement import Placement
from .homes.snapshots import HomeCopies
from .homes.volumes import Homes
from .homes.zone_migration import HomeMoves
from .instances.claims import Claims
from .instances.inventory import Inventory
from .launch.controller import Buying
from .launch.launcher import Launcher
from .launch.spot_waits import SpotWaits
from .lifecycle.heartbeat import Beats
from .lifecycle.home_attachment import HomeBringing
from .lifecycle.instance_loss import Losses
from .lifecycle.recovery import Adoption
from .lifecycle.start import Starting
from .lifecycle.start_timeout import Unready
from .lifecycle.tagging import Labels
from .lifecycle.termination import Ending
from .lifecycle.unhealthy_instance import Broken
from .model.cloud import Cloud, Launched
from .model.lease import (
    Intent,
    IntentState,
    Lease,
    LeaseState,
    StepEvent,
)
from .model.settings import Settings
from .offers.images import ImageBook
from .offers.instance_types import Catalogue
from .offers.offers import OfferBook
from .offers.prices import PriceBook
from .reconciler import Reconciler
from .retention.restart import KeptStarts
from .retention.retention import Keeping
from .runtime.task_group import Background
from .runtime.uptime_clock import Awake
from .state.instance_cache import Watcher
from .state.lease_registry import LeaseBook
from .state.spending import Spending
from .state.start_durations import UsualDurations
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
        self.awake = awake = Awake(now, monotonic)
        self._cloud = cloud
        self._store = store
        self._wake = asyncio.Event()
        self.listed_at: float | None = None
        """When the last listing was complete, in seconds awake."""
        self.background = background = Background()
        self.usual_durations = UsualDurations(store, background.spawn)
        self.homes = homes = Homes(cloud, store, settings, now=now)
        self.placement = placement = Placement(cloud, settings, homes)

        self.spending = spending = Spending(store, now=now)
        store.overhead_told = spending.count_overhead
        self.book = book = LeaseBook(store, now=now, forgotten=spending.forgotten)
        self.watcher = watcher = Watcher(
            cloud, settings, in_motion=self._in_motion, listed=self._on_listed
        )
        self.images = ImageBook(cloud, settings.image, now=now)
        self.catalogue = Catalogue(cloud, types, settings, now=now, zones=placement.zones)
        self.catalogue.want(settings.want_types)
        self.prices = prices = PriceBook(
            cloud,
            settings,
            types,
            now=now,
            zones=placement.zones,
            changed=self.wake,
            running=lambda: self.inventory.running(),
            discounts=settings.discounts,
        )
        self.offers = OfferBook(
            self.catalogue, prices, now=now, subnets=lambda: placement.by_subnet
        )
        self.launcher = launcher = Launcher(
            cloud,
            store,
            settings,
            self.offers,
            now=now,
            zones=lambda: placement.by_subnet,
            launched=self._on_launched,
        )
        self.claims = claims = Claims(
            store,
            watcher,
            launcher,
            settings,
            now=now,
            awake=awake,
            kept=lambda instance_id: self.keeping.get(instance_id),
        )
        self.inventory = Inventory(
            book,
            claims,
            launcher,
            watcher,
            settings,
            store.store_id,
            placement.zones_of,
            awake,
            lambda instance_id: self.keeping.holds(instance_id),
        )
        self.keeping = keeping = Keeping(
            book=book,
            store=store,
            cloud=cloud,
            watcher=watcher,
            claims=claims,
            prices=prices,
            settings=settings,
            now=now,
            awake=awake,
            need_of=lambda lease: self.starting.need_of(lease),
            terminate=lambda instance_ids: self.ending.terminate(instance_ids),
            starts=KeptStarts(
                book=book,
                cloud=cloud,
                watcher=watcher,
                fail=lambda lease_id, stop: self.ending.begin(lease_id, stop),
                learn=self.offers.learn_of_start,
            ),
            fail=lambda lease_id, stop: self.ending.begin(lease_id, stop),
            spawn_task=background.spawn,
        )
        self.ending = Ending(
            book=book,
            store=store,
            cloud=cloud,
            claims=claims,
            homes=homes,
            keeping=keeping,
            prices=prices,
            watcher=watcher,
            settings=settings,
            now=now,
            spawn_task=background.spawn,
            wake=self.wake,
            ended=ended,
        )
        self.bringing = HomeBringing(
            book=book,
            claims=claims,
            homes=homes,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.home_moves = HomeMoves(
            cloud=cloud,
            homes=homes,
            book=book,
            settings=settings,
            store_id=store.store_id,
            now=now,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.home_copies = HomeCopies(
            cloud=cloud,
            homes=homes,
            settings=settings,
            store_id=store.store_id,
            now=now,
            awake=awake,
            spawn_task=background.spawn,
        )
        self.starting = Starting(
            book=book,
            claims=claims,
            homes=homes,
            bringing=self.bringing,
            keeping=keeping,
            prices=prices,
            store=store,
            now=now,
            zones_of=placement.zones_of,
            supplies=lambda: self.inventory.take_stock().supplies,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            stopped=self.ending.agent_stopped,
            wake=self.wake,
            awake=awake,
        )
        self.broken = Broken(
            book=book,
            claims=claims,
            keeping=keeping,
            starting=self.starting,
            settings=settings,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.unready = Unready(
            book=book,
            cloud=cloud,
            starting=self.starting,
            settings=settings,
            awake=awake,
            spawn_task=background.spawn,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.waits = SpotWaits(book, self.offers, now, self.wake)
        self.buying = Buying(
            book=book,
            launcher=launcher,
            offers=self.offers,
            waits=self.waits,
            prices=prices,
            images=self.images,
            now=now,
            zones=lambda: placement.by_subnet,
            missing=self._missing,
            fail=self.ending.begin,
            spawn_task=background.spawn,
            wake=self.wake,
        )
        self.labels = labels = Labels(book, cloud, watcher, store.store_id, background.spawn)
        self.beats = beats = Beats(book, prices, settings, now, awake, self.wake, spending)
        self.adoption = adoption = Adoption(book, watcher, homes, prices, settings, now, awake)
        self.reaper = Reaper(cloud, settings, store.store_id, homes.volume_ids, now, awake)
        self.losses = losses = Losses(
            book, watcher, claims, self.unready, self.ending, keeping, adoption
        )
        self.reconciler = Reconciler(
            settings=settings,
            now=now,
            awake=awake,
            woken=self._wake,
            store=store,
            book=book,
            watcher=watcher,
            placement=placement,
            prices=prices,
            launcher=launcher,
            claims=claims,
            inventory=self.inventory,
            keeping=keeping,
            ending=self.ending,
            bringing=self.bringing,
            home_moves=self.home_moves,
            home_copies=self.home_copies,
            starting=self.starting,
            unready=self.unready,
            buying=self.buying,
            labels=labels,
            beats=beats,
            adoption=adoption,
            losses=losses,
            spending=spending,
            spawn_task=background.spawn,
        )

    # --- life ---

    async def start(self) -> None:
        """Read the store and begin to watch. Raises `StoreError`, `CloudError`."""
        snapshot = await self._store.load()
        await self.placement.load()
        self.book.load(snapshot)
        self.spending.begin()
        self.claims.load(snapshot.bindings)
        self.homes.load(snapshot.homes)
        self.keeping.load(snapshot.kept)
        self.launcher.intents = {intent.client_token: intent for intent in snapshot.intents}
        self.inventory.recall(snapshot.intents, self.now())
        self.adoption.load(snapshot.leases)
        self.watcher.track(lease.instance_id for lease in snapshot.leases if lease.instance_id)
        self.ending.resume()
        self.background.spawn(self.watcher.run(), "watch")
        self.background.spawn(self.prices.run(), "prices")
        self.background.spawn(self.catalogue.run(), "catalogue")
        self.background.spawn(self._look_image_up(), "image")
        self.background.spawn(self.reaper.run(), "reaper")
        self.background.spawn(self.reaper.run_templates(), "templates")
        for intent in snapshot.intents:
            if intent.state is IntentState.OPEN:
                self.buying.replay(intent)
        self.background.spawn(self.reconciler.run(), "reconcile")

    async def close(self) -> None:
        """Stop watching. Instances and leases go on; the next process takes them up."""
        await self.background.end()
        await self.book.drain()
        await self._store.unwritten.again()
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
            await self.book.add(replace(lease, events=(begun,)))
        except StoreError:
            stop = Stop(reason="failed", message="The hub could not write its database")
            await self.ending.begin(lease.lease_id, stop)
            raise
        for instance_id in list(self.claims.waiting):
            self.claims.wake(instance_id)
        self.wake()

    async def agent_stopped(self, lease: Lease, message: str) -> None:
        """The agent of a lease reports that it has ended, asked for or not.

        During a start its instance is shutting down: the lease gets another one.
        """
        current = self.book.get(lease.lease_id) or lease
        if current.state is LeaseState.STARTING and current.instance_id == lease.instance_id:
            self.unready.ended(current, None)
            return
        await self.ending.begin(lease.lease_id, Stop(reason="failed", message=message))
        self.ending.agent_stopped(lease)

    # --- what the parts tell each other ---

    def _missing(self) -> frozenset[str]:
        """Ids of the waiting leases for which nothing is on its way."""
        supplies = self.inventory.take_stock().supplies
        return frozenset(balance(self.starting.needs(), supplies).missing)

    def _in_motion(self) -> bool:
        """True while something starts or ends, so that listings are worth their call."""
        moving = self.book.open(LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING)
        return (
            any(True for _ in moving)
            or bool(self.launcher.rounds or self.inventory.expected)
            or any(self._may_be_gone(lease) for lease in self.book.open(LeaseState.READY))
        )

    def _may_be_gone(self, lease: Lease) -> bool:
        """True for a server that is checked after the hub's start, and that EC2 does not list."""
        unheard = not self.book.contact(lease.lease_id).beats
        return unheard and self.watcher.is_missing(lease.instance_id or "")

    def _on_listed(self) -> None:
        self.listed_at = self.awake()
        self.wake()

    async def _on_launched(self, launched: Launched, intent: Intent) -> None:
        self.inventory.expect(launched, intent, self.now())
        self.claims.wake(launched.instance_id)
        self.watcher.refresh_soon()

    async def _look_image_up(self) -> None:
        """Before anybody waits for it."""
        await self.images.current()

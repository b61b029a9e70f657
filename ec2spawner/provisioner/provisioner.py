"""The reconciler: keeps instances and leases in step with what the cloud shows.

Level-triggered. A pass looks at the waiting list, the last listing and the calls under way,
and does what is missing; nothing is remembered as a step. Everything may be killed between any
two lines: the next pass, or the next process, goes on from what is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..core import money
from ..core.matching import balance
from ..data import InstanceType
from ..wire import Step, Stop
from . import metrics
from .adoption import Adoption
from .awake import Awake
from .beats import Beats
from .book import LeaseBook
from .broken import Broken
from .buying import Buying
from .catalogue import Catalogue
from .claims import Claims
from .cloud import Cloud, CloudError, Instance, Launched, LaunchSpec
from .ending import Ending
from .home_bringing import HomeBringing
from .home_copies import HomeCopies
from .home_moves import HomeMoves
from .homes import Homes
from .images import ImageBook
from .keeping import Keeping
from .keys import launch_key_of
from .labels import Labels
from .launcher import Launcher
from .lease import Intent, IntentState, Lease, LeaseState, StepEvent
from .losses import Losses
from .offer_book import OfferBook
from .prices import PriceBook
from .reaper import Reaper
from .settings import Settings
from .spending import Spending
from .starting import Starting
from .store import Store, StoreError
from .supply import Inventory
from .unready import Unready
from .watcher import Watcher

log = logging.getLogger(__name__)

PASS_INTERVAL = 5.0
"""Seconds between two passes at most; events and deadlines make them sooner."""

USUAL_PATIENCE = 2.0
"""Seconds a page waits for the store to tell how long starts usually take."""

SHORTEST_WAIT = 0.25
"""Seconds between two passes at least, when a deadline is all that there is."""

INTENTS_KEPT = timedelta(hours=1)
"""Launch calls that were answered stay in memory so long, and while an instance carries them."""

ENDED_KEPT = timedelta(minutes=10)
"""Ended leases stay in memory so long: a late beat is answered 410 instead of 404."""


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
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._zones: dict[str, str] = {}
        self.passed_at: float | None = None
        """When the last pass went through, in seconds awake."""
        self.listed_at: float | None = None
        """When the last listing was complete, in seconds awake."""
        self._usual: dict[str, Mapping[Step, float]] = {}
        """By profile: what the store said last."""

        self.spending = spending = Spending(store, now=now)
        store.overhead_told = spending.count_overhead
        self.book = book = LeaseBook(store, now=now, forgotten=spending.forgotten)
        self.watcher = watcher = Watcher(
            cloud, settings, in_motion=self._in_motion, listed=self._on_listed
        )
        self.images = ImageBook(cloud, settings.image, now=now)
        self.catalogue = Catalogue(cloud, types, settings, now=now, zones=self.zones)
        self.catalogue.want(settings.want_types)
        self.prices = prices = PriceBook(
            cloud,
            settings,
            types,
            now=now,
            zones=self.zones,
            changed=self.wake,
            running=lambda: self.inventory.running(),
            discounts=settings.discounts,
        )
        self.offers = OfferBook(self.catalogue, prices, now=now, subnets=lambda: self._zones)
        self.launcher = launcher = Launcher(
            cloud,
            store,
            settings,
            self.offers,
            now=now,
            zones=lambda: self._zones,
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
        self.homes = homes = Homes(cloud, store, settings, now=now)
        self.inventory = Inventory(
            book,
            claims,
            launcher,
            watcher,
            settings,
            store.store_id,
            self.zones_of,
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
            need_of=lambda lease: self.starting.need_of(lease),
            terminate=lambda instance_ids: self.ending.terminate(instance_ids),
            fail=lambda lease_id, stop: self.ending.begin(lease_id, stop),
            spawn_task=self.spawn_task,
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
            spawn_task=self.spawn_task,
            wake=self.wake,
            ended=ended,
        )
        self.bringing = HomeBringing(
            book=book,
            claims=claims,
            homes=homes,
            spawn_task=self.spawn_task,
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
            spawn_task=self.spawn_task,
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
            spawn_task=self.spawn_task,
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
            zones_of=self.zones_of,
            supplies=lambda: self.inventory.take_stock().supplies,
            spawn_task=self.spawn_task,
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
            spawn_task=self.spawn_task,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.buying = Buying(
            book=book,
            launcher=launcher,
            offers=self.offers,
            prices=prices,
            images=self.images,
            now=now,
            zones=lambda: self._zones,
            missing=self._missing,
            fail=self.ending.begin,
            spawn_task=self.spawn_task,
            wake=self.wake,
        )
        self.labels = Labels(book, cloud, watcher, store.store_id, self.spawn_task)
        self.beats = Beats(book, prices, settings, now, awake, self.wake, spending)
        self.adoption = adoption = Adoption(book, watcher, homes, prices, settings, now, awake)
        self.reaper = Reaper(cloud, settings, store.store_id, homes.volume_ids, now, awake)
        self.losses = Losses(book, watcher, claims, self.unready, self.ending, keeping, adoption)

    # --- life ---

    async def start(self) -> None:
        """Read the store and begin to watch. Raises `StoreError`, `CloudError`."""
        snapshot = await self._store.load()
        self._zones = dict(await self._cloud.zones_of(self.settings.subnets))
        self.book.load(snapshot)
        self.spending.begin(self.book)
        self.claims.load(snapshot.bindings)
        self.homes.load(snapshot.homes)
        self.keeping.load(snapshot.kept)
        self.launcher.intents = {intent.client_token: intent for intent in snapshot.intents}
        self.inventory.recall(snapshot.intents, self.now())
        self.adoption.load(snapshot.leases)
        self.watcher.track(lease.instance_id for lease in snapshot.leases if lease.instance_id)
        self.ending.resume()
        self.spawn_task(self.watcher.run(), "watch")
        self.spawn_task(self.prices.run(), "prices")
        self.spawn_task(self.catalogue.run(), "catalogue")
        self.spawn_task(self._look_image_up(), "image")
        self.spawn_task(self.reaper.run(), "reaper")
        self.spawn_task(self.reaper.run_templates(), "templates")
        for intent in snapshot.intents:
            if intent.state is IntentState.OPEN:
                self.buying.replay(intent)
        self.spawn_task(self._run(), "reconcile")

    async def close(self) -> None:
        """Stop watching. Instances and leases go on; the next process takes them up."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.book.drain()
        await self._store.unwritten.again()
        await self._store.close()

    def spawn_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run in the background, held; a failure is logged, and the next pass goes on."""

        async def guarded() -> None:
            try:
                await work
            except (CloudError, StoreError) as error:
                log.error("%s: %s", name, error)
            except Exception:
                log.exception("%s failed", name)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            work.close()  # where the task was cancelled before it began

        task = asyncio.create_task(guarded(), name=f"ec2spawner {name}")
        self._tasks.add(task)
        task.add_done_callback(done)

    def wake(self) -> None:
        """Let a pass begin now."""
        self._wake.set()

    # --- what others ask ---

    def zones(self) -> list[str]:
        """The availability zones of the configured subnets."""
        return sorted({*self._zones.values()})

    def zones_of(self, spec: LaunchSpec) -> frozenset[str]:
        return frozenset(self._zones[s] for s in spec.subnets if s in self._zones)

    def subnets_for(self, user: str, server: str, *, home_kind: str = "ebs") -> tuple[str, ...]:
        """The subnets that the server's home allows: all, or those of the home's zone."""
        zone = self.homes.zone_of(user, server) if home_kind == "ebs" else None
        if zone is None:
            return self.settings.subnets
        return tuple(s for s in self.settings.subnets if self._zones.get(s) == zone)

    def zones_for(self, user: str, server: str, *, home_kind: str = "ebs") -> frozenset[str]:
        """The zones that the server's home allows, of those that have a configured subnet."""
        subnets = self.subnets_for(user, server, home_kind=home_kind)
        return frozenset(self._zones[subnet] for subnet in subnets if subnet in self._zones)

    def instance_of(self, lease: Lease) -> Instance | None:
        """The lease's instance as the last listing showed it."""
        return self.watcher.instances.get(lease.instance_id or "")

    def knows_instance(self, instance_id: str) -> bool:
        """Whether a listing shows it, or a launch has been answered with it."""
        return instance_id in self.watcher.instances or instance_id in self.inventory.expected

    async def usual_durations(self, profile: str) -> Mapping[Step, float]:
        """Median seconds of each step over the last starts of a profile; empty when unknown."""
        try:
            async with asyncio.timeout(USUAL_PATIENCE):
                self._usual[profile] = await self._store.usual_durations(profile)
        except (StoreError, TimeoutError) as error:
            log.warning("Usual durations are as of earlier: %s", error or "the store is slow")
        return self._usual.get(profile, {})

    async def usual_start_seconds(self, profiles: Iterable[str]) -> Mapping[str, float]:
        """How long a start of each profile usually takes, where that is known."""
        wanted = list(profiles)
        usual = await asyncio.gather(*map(self.usual_durations, wanted))
        return {
            profile: sum(steps.values())
            for profile, steps in zip(wanted, usual, strict=True)
            if steps
        }

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

    # --- the pass ---

    async def _run(self) -> None:
        while not await self.watcher.first_listing(timeout=PASS_INTERVAL):
            log.info("Waiting for the first complete listing of instances")
        while True:
            self._wake.clear()
            pause = PASS_INTERVAL
            try:
                with metrics.PASS_SECONDS.time(), metrics.PASSES_FAILED.count_exceptions():
                    await self.reconcile()
                self.passed_at = self.awake()
                pause = self._until_next_deadline()
            except (CloudError, StoreError) as error:
                log.error("Reconciling: %s", error)
            except Exception:
                log.exception("A reconcile pass failed; the next one goes on")
            # Not `wait_for`: on Python 3.11 that can swallow a cancellation, here and elsewhere.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            await asyncio.sleep(self.settings.batch_window)

    async def reconcile(self) -> None:
        """One pass: look at everything once, and do what is missing."""
        set_by = self.awake.tick()
        self.beats.clock_was_set(set_by)
        self.keeping.clock_was_set(set_by)
        now = self.now()
        self.ending.resume()  # what was decided goes on whatever the store says
        await self._store.hold()  # or another hub may be at work here
        await self.book.save_again()
        await self._store.unwritten.again()
        self.spending.follow(self.spawn_task)
        self.book.forget_ended(now - ENDED_KEPT)
        await self.losses.follow()
        self.losses.replace_stillborn()
        self.unready.end_what_is_late()
        await self._follow_homes()
        await self._end_what_is_due(now)
        await self.keeping.follow(now)
        self._forget_gone(now)
        await self._balance()
        self.labels.follow()
        self.bringing.follow(self.watcher.instances)
        self.home_moves.follow()
        self.home_copies.follow()
        await self._reprice(now)

    async def _follow_homes(self) -> None:
        """A lease that waits while its home is being made is bound to the zone of that."""
        for lease in self.book.open(LeaseState.WAITING):
            subnets = self.subnets_for(lease.user, lease.server)
            if lease.home_kind != "ebs" or not subnets or subnets == lease.spec.subnets:
                continue
            spec = replace(lease.spec, subnets=subnets)
            await self.book.change(lease.lease_id, spec=spec, launch_key=launch_key_of(spec))

    async def _end_what_is_due(self, now: datetime) -> None:
        silent: list[tuple[Lease, Stop]] = []
        for lease in list(self.book.open(LeaseState.READY)):
            at, stop = self.beats.due(lease, now)
            if at > now:
                continue
            if stop.reason == "lost":
                silent.append((lease, stop))
            else:
                await self.ending.begin(lease.lease_id, stop)
        silent_ends = self.adoption.braked(silent, "their agents are silent")
        for lease, stop in [*silent_ends, *self.adoption.unclaimed()]:
            await self.ending.begin(lease.lease_id, stop)

    def _forget_gone(self, now: datetime) -> None:
        """What no listing shows and no lease holds: nothing grows for as long as the hub runs."""
        self.inventory.forget_old(now)
        leased = {lease.instance_id for lease in self.book.open() if lease.instance_id}
        self.claims.forget_gone(self.watcher.instances.keys() | leased)
        self.launcher.forget_old(now - INTENTS_KEPT, self.watcher.instances.values())

    async def _reprice(self, now: datetime) -> None:
        for lease in self.book.open(LeaseState.STARTING, LeaseState.READY):
            instance = self.instance_of(lease)
            if instance is None or self.book.get(lease.lease_id) is not lease:
                continue
            price = self.prices.price_of(instance)
            if price is None:
                continue
            segments = money.reprice(lease.segments, now, price.usd_per_hour, price.source)
            if segments != lease.segments:
                await self.book.change(lease.lease_id, segments=segments)
                self.book.tell_agent(lease.lease_id)

    async def _balance(self) -> None:
        """Launch what is missing, terminate what nobody needs."""
        while tokens := self.launcher.not_looked_up(self.watcher.instances.values()):
            await self.launcher.look_up(tokens)
        stock = self.inventory.take_stock()
        result = balance(self.starting.needs(), stock.supplies)
        missing = frozenset(result.missing)
        self.unready.never_spoke(stock.silent, missing)
        listed = self.watcher.instances
        surplus = [listed[supply_id] for supply_id in result.surplus if supply_id in listed]
        unknown = self.adoption.unknown(stock.unknown)
        self.losses.on_offer = frozenset(supply.supply_id for supply in stock.supplies)
        self.buying.buy(missing - self.starting.judged)
        await self.ending.terminate_unleased([*stock.dead, *surplus, *unknown])

    def _missing(self) -> frozenset[str]:
        """Ids of the waiting leases for which nothing is on its way."""
        supplies = self.inventory.take_stock().supplies
        return frozenset(balance(self.starting.needs(), supplies).missing)

    def _in_motion(self) -> bool:
        """True while something starts or ends, so that listings are worth their call."""
        moving = self.book.open(LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING)
        return any(True for _ in moving) or bool(self.launcher.rounds or self.inventory.expected)

    def _until_next_deadline(self) -> float:
        now = self.now()
        dues = [self.beats.due(lease, now) for lease in self.book.open(LeaseState.READY)]
        seconds = [(due[0] - now).total_seconds() for due in dues]
        return min([PASS_INTERVAL, *(max(left, SHORTEST_WAIT) for left in seconds if left > -1)])

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

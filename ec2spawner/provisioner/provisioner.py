"""The reconciler: keeps instances and leases in step with what the cloud shows.

Level-triggered. A pass looks at the waiting list, the last listing and the calls under way,
and does what is missing; nothing is remembered as a step. Everything may be killed between any
two lines: the next pass, or the next process, goes on from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..core import money
from ..core.matching import balance, lease_for
from ..data import InstanceType
from ..wire import Step, Stop
from .adoption import Adoption
from .beats import Beats
from .book import LeaseBook
from .claims import Claims
from .cloud import GONE, SOLD_OUT, Cloud, CloudError, Instance, Launched, LaunchSpec
from .ending import Ending
from .homes import Homes
from .keys import launch_key_of
from .labels import Labels
from .launcher import Launcher, Outcome, Round
from .lease import Intent, IntentState, Lease, LeaseState
from .prices import PriceBook
from .settings import Settings
from .starting import Starting
from .store import Store, StoreError
from .supply import Inventory, supply_of
from .watcher import Watcher

log = logging.getLogger(__name__)

PASS_INTERVAL = 5.0
"""Seconds between two passes at most; events and deadlines make them sooner."""

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
        ended: Callable[[Lease], None] = lambda lease: None,
    ) -> None:
        self.settings = settings
        self.now = now
        self._cloud = cloud
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._zones: dict[str, str] = {}
        self._on_offer: frozenset[str] = frozenset()
        """Instances that could still take a lease when the last pass looked."""

        self.book = book = LeaseBook(store, now=now)
        self.watcher = watcher = Watcher(
            cloud, settings, in_motion=self._in_motion, listed=self.wake
        )
        self.prices = prices = PriceBook(
            cloud,
            settings,
            types,
            now=now,
            zones=lambda: sorted({*self._zones.values()}),
            changed=self.wake,
        )
        self.launcher = launcher = Launcher(
            cloud, store, settings, now=now, zones_of=self.zones_of, launched=self._on_launched
        )
        self.claims = claims = Claims(store, watcher, launcher, settings, now=now)
        self.homes = homes = Homes(cloud, store, settings, now=now)
        self.inventory = Inventory(
            book, claims, launcher, watcher, settings, store.store_id, self.zones_of
        )
        self.ending = Ending(
            book=book,
            store=store,
            cloud=cloud,
            claims=claims,
            homes=homes,
            prices=prices,
            watcher=watcher,
            settings=settings,
            now=now,
            spawn_task=self.spawn_task,
            wake=self.wake,
            ended=ended,
        )
        self.starting = Starting(
            book=book,
            claims=claims,
            homes=homes,
            prices=prices,
            store=store,
            now=now,
            zones_of=self.zones_of,
            supplies=lambda: self.inventory.take_stock(now()).supplies,
            spawn_task=self.spawn_task,
            fail=self.ending.begin,
            wake=self.wake,
        )
        self.labels = Labels(book, cloud, watcher, store.store_id, self.spawn_task)
        self.beats = Beats(book, prices, settings, now, self.instance_of, self.wake)
        self.adoption = Adoption(book, watcher, homes, prices, settings, now)

    # --- life ---

    async def start(self) -> None:
        """Read the store and begin to watch. Raises `StoreError`, `CloudError`."""
        snapshot = await self._store.load()
        self._zones = dict(await self._cloud.zones_of(self.settings.subnets))
        self.book.load(snapshot)
        self.claims.load(snapshot.bindings)
        self.homes.load(snapshot.homes)
        self.launcher.intents = {intent.client_token: intent for intent in snapshot.intents}
        self.adoption.load(snapshot.leases)
        self.watcher.track(lease.instance_id for lease in snapshot.leases if lease.instance_id)
        self.ending.resume()
        self.spawn_task(self.watcher.run(), "watch")
        self.spawn_task(self.prices.run(), "prices")
        self.spawn_task(self.homes.take_up_volumes(), "volumes")
        for intent in snapshot.intents:
            if intent.state is IntentState.OPEN:
                self.spawn_task(self._replay(intent), f"replay {intent.client_token}")
        self.spawn_task(self._run(), "reconcile")

    async def close(self) -> None:
        """Stop watching. Instances and leases go on; the next process takes them up."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.book.drain()
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

    def zones_of(self, spec: LaunchSpec) -> frozenset[str]:
        return frozenset(self._zones[s] for s in spec.subnets if s in self._zones)

    def subnets_for(self, user: str, server: str, *, home_kind: str = "ebs") -> tuple[str, ...]:
        """The subnets that the server's home allows: all, or those of the home's zone."""
        zone = self.homes.zone_of(user, server) if home_kind == "ebs" else None
        if zone is None:
            return self.settings.subnets
        return tuple(s for s in self.settings.subnets if self._zones.get(s) == zone)

    def instance_of(self, lease: Lease) -> Instance | None:
        """The lease's instance as the last listing showed it."""
        return self.watcher.instances.get(lease.instance_id or "")

    async def usual_durations(self, profile: str) -> Mapping[Step, float]:
        """Median seconds of each step over the last starts of a profile; empty when unknown."""
        try:
            return await self._store.usual_durations(profile)
        except StoreError as error:
            log.warning("Usual durations are unknown: %s", error)
            return {}

    async def usual_start_seconds(self, profiles: Iterable[str]) -> Mapping[str, float]:
        """How long a start of each profile usually takes, where that is known."""
        usual = {profile: await self.usual_durations(profile) for profile in profiles}
        return {profile: sum(steps.values()) for profile, steps in usual.items() if steps}

    async def request(self, lease: Lease) -> None:
        """Put a lease on the waiting list."""
        await self.book.add(lease)
        await self.book.note(lease.lease_id, Step.REQUEST, "Looking for a machine")
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
                await self.reconcile()
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
        now = self.now()
        await self.book.save_again()
        self.book.forget_ended(now - ENDED_KEPT)
        self.ending.resume()
        await self._follow_instances()
        await self._replace_stillborn()
        await self._follow_homes()
        await self._end_what_is_due(now)
        self._forget_gone(now)
        await self._balance(now)
        self.labels.follow()
        self.starting.bring_homes(self.watcher.instances)
        await self._reprice(now)

    async def _follow_instances(self) -> None:
        """Leases whose instance is gone: another one, or the end."""
        self.watcher.track(lease.instance_id for lease in self.book.open() if lease.instance_id)
        vanished: list[tuple[Lease, Stop]] = []
        for lease in list(self.book.open()):
            if lease.instance_id is None or not self.watcher.is_gone(lease.instance_id):
                continue
            stop = _why_gone(self.instance_of(lease))
            if lease.state is LeaseState.STARTING:
                await self.starting.replace_instance(lease, self.settings.replacements)
            elif lease.state is LeaseState.ENDING:
                self.ending.instance_gone(lease)
            elif self.instance_of(lease) is None:
                vanished.append((lease, stop))
            else:
                await self._end_gone(lease, stop)
        for lease, stop in self.adoption.braked(vanished, "EC2 no longer lists them"):
            await self._end_gone(lease, stop)

    async def _replace_stillborn(self) -> None:
        """Instances that ended by themselves before they had a lease.

        Each counts against the lease it would have served, so that an image which cannot boot
        does not launch for ever.
        """
        listed, leased = self.watcher.instances, {lease.instance_id for lease in self.book.open()}
        for instance_id in self._on_offer & listed.keys() - self.claims.unwanted.keys() - leased:
            if listed[instance_id].state not in GONE:
                continue
            need = lease_for(supply_of(listed[instance_id]), self.starting.needs())
            if need is not None and (lease := self.book.get(need.lease_id)):
                await self.starting.replace_instance(lease, self.settings.replacements)
        self._on_offer = frozenset()

    async def _follow_homes(self) -> None:
        """A lease that waits while its home is being made is bound to the zone of that."""
        for lease in self.book.open(LeaseState.WAITING):
            subnets = self.subnets_for(lease.user, lease.server)
            if lease.home_kind != "ebs" or not subnets or subnets == lease.spec.subnets:
                continue
            spec = replace(lease.spec, subnets=subnets)
            await self.book.change(lease.lease_id, spec=spec, launch_key=launch_key_of(spec))

    async def _end_gone(self, lease: Lease, stop: Stop) -> None:
        await self.ending.begin(lease.lease_id, stop)
        self.ending.instance_gone(lease)

    async def _end_what_is_due(self, now: datetime) -> None:
        silent: list[tuple[Lease, Stop]] = []
        for lease in list(self.book.open(LeaseState.READY)):
            at, stop = self.beats.due(lease)
            if at > now:
                continue
            if stop.reason == "lost":
                silent.append((lease, stop))
            else:
                await self.ending.begin(lease.lease_id, stop)
        silent_ends = self.adoption.braked(silent, "their agents are silent")
        for lease, stop in [*silent_ends, *self.adoption.unclaimed(now)]:
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
            price = self.prices.price(instance.market, instance.instance_type, instance.zone)
            if price is None:
                continue
            segments = money.reprice(lease.segments, now, price.usd_per_hour, price.source)
            if segments != lease.segments:
                await self.book.change(lease.lease_id, segments=segments)
                self.book.tell_agent(lease.lease_id)

    async def _balance(self, now: datetime) -> None:
        """Launch what is missing, terminate what nobody needs."""
        stock = self.inventory.take_stock(now)
        result = balance(self.starting.needs(), stock.supplies)
        listed = self.watcher.instances
        surplus = [listed[supply_id] for supply_id in result.surplus if supply_id in listed]
        unknown = self.adoption.unknown(stock.unknown, now)
        self._on_offer = frozenset(supply.supply_id for supply in stock.supplies)
        by_spec = Counter(
            lease.spec
            for lease in self.book.open(LeaseState.WAITING)
            if lease.lease_id in result.missing
        )
        for spec, count in by_spec.items():
            round_ = self.launcher.promise(spec, count)
            self.spawn_task(self._launch(round_), f"launch of {count}")
        await self.ending.terminate_unleased([*stock.dead, *surplus, *unknown])

    def _in_motion(self) -> bool:
        """True while something starts or ends, so that listings are worth their call."""
        moving = self.book.open(LeaseState.WAITING, LeaseState.STARTING, LeaseState.ENDING)
        return any(True for _ in moving) or bool(self.launcher.rounds or self.inventory.expected)

    def _until_next_deadline(self) -> float:
        now = self.now()
        dues = [self.beats.due(lease) for lease in self.book.open(LeaseState.READY)]
        seconds = [(due[0] - now).total_seconds() for due in dues]
        return min([PASS_INTERVAL, *(max(left, SHORTEST_WAIT) for left in seconds if left > -1)])

    # --- launching ---

    async def _launch(self, round_: Round) -> None:
        outcome = await self.launcher.launch(round_)
        waiting = [x for x in self.book.open(LeaseState.WAITING) if x.spec == round_.spec]
        for lease, launched in zip(waiting, outcome.launched, strict=False):
            await self.book.note(
                lease.lease_id, Step.BOOT, self._found(launched), launched.instance_id
            )
        if outcome.missing:
            await self._give_up(round_.spec, outcome)
        self.wake()

    async def _give_up(self, spec: LaunchSpec, outcome: Outcome) -> None:
        """End those leases for which nothing is on its way, the latest first."""
        supplies = self.inventory.take_stock(self.now()).supplies
        missing = set(balance(self.starting.needs(), supplies).missing)
        waiting = [x for x in self.book.open(LeaseState.WAITING) if x.spec == spec]
        stop = Stop(reason="failed", message=_why_not_launched(outcome))
        for lease in [x for x in waiting if x.lease_id in missing][-outcome.missing :]:
            await self.ending.begin(lease.lease_id, stop)

    async def _replay(self, intent: Intent) -> None:
        await self.launcher.replay(intent)
        self.wake()

    async def _on_launched(self, launched: Launched, intent: Intent) -> None:
        self.inventory.expect(launched, intent, self.now())
        self.claims.wake(launched.instance_id)
        self.watcher.refresh_soon()

    def _found(self, launched: Launched) -> str:
        price = self.prices.price(launched.market, launched.instance_type, launched.zone)
        parts = [launched.instance_type, str(launched.market), launched.zone]
        if price:
            parts.append(f"${price.usd_per_hour:.2f}/h")
        return f"Found one: {', '.join(part for part in parts if part)}"


def _why_gone(instance: Instance | None) -> Stop:
    if instance is None:
        return Stop(reason="lost", message="EC2 no longer lists the instance")
    if instance.state_reason == "Server.SpotInstanceTermination":
        message = "AWS took the spot instance back"
        return Stop(reason="interruption", message=message)
    return Stop(reason="lost", message="The instance was terminated from outside the hub")


def _why_not_launched(outcome: Outcome) -> str:
    """For the user: what EC2 said, shortest form, each thing once."""
    reasons = dict.fromkeys(f"{error.code}: {error.message}" for error in outcome.errors)
    detail = "; ".join(list(reasons)[:3]) or "EC2 gave no reason"
    if any(error.code not in SOLD_OUT for error in outcome.errors):
        return f"EC2 could not start a machine; please tell an admin ({detail})"[:500]
    return f"EC2 has no machine of this kind for you right now ({detail})"[:500]

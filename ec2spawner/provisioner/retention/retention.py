"""Instances that wait for their user: kept at a stop, taken at the next start, ended in time.

What is kept is stored before anything is done about it, and so is each start of a stopped
instance. Every pass looks at all of them anew: what they are, who may take them, and whether
they are surplus. The rules are `core.instances.retention`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ...core.instances.matching import Need
from ...core.instances.retention import (
    CLAIM_SILENCE,
    Decision,
    Kept,
    decide,
    is_of_a_later_boot,
    may_take,
    moved_with_clock,
    why_surplus,
)
from ...core.pricing.money import overhead_key
from ...core.tags import LEASE
from ...wire import Market, Step, Stop
from ..instances.claims import Claims
from ..instances.inventory import supply_of
from ..model.cloud import (
    GONE,
    Cloud,
    CloudError,
    Instance,
    InstanceState,
)
from ..model.launch_key import fit_key_of
from ..model.lease import Lease, LeaseState
from ..model.settings import Settings
from ..offers.prices import PriceCache
from ..runtime.uptime_clock import UptimeClock
from ..state.instance_cache import InstanceCache
from ..state.lease_registry import LeaseRegistry
from ..store.store import Store, StoreError
from .failure_message import late
from .restart import RetainedRestarts

log = logging.getLogger(__name__)

CALL_PACE: Final = 5.0
"""Between two calls for one instance, in busy intervals: ten seconds."""

UPTIME: Final = frozenset({InstanceState.PENDING, InstanceState.RUNNING})


@dataclass(slots=True)
class Retention:
    registry: LeaseRegistry
    store: Store
    cloud: Cloud
    instance_cache: InstanceCache
    claims: Claims
    prices: PriceCache
    settings: Settings
    now: Callable[[], datetime]
    uptime: UptimeClock
    need_of: Callable[[Lease], Need]
    terminate: Callable[[Sequence[str]], Coroutine[Any, Any, None]]
    starts: RetainedRestarts
    fail: Callable[[str, Stop], Coroutine[Any, Any, None]]
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    _kept: dict[str, Kept] = field(default_factory=dict)
    """By instance id."""
    _called: dict[str, float] = field(default_factory=dict)
    """By instance id: when EC2 was last asked to stop or start it, on the loop's clock."""
    _waited_since: dict[tuple[str, bool], float] = field(default_factory=dict)
    """By lease id, and whether its start was asked for: since when, in seconds awake, it has
    waited for its stopped instance."""

    def load(self, kept: Sequence[Kept]) -> None:
        self._kept = {each.instance_id: each for each in kept}
        for instance_id in self._kept:
            self.claims.heard(instance_id)  # no agent could claim while no hub ran

    # --- what others ask ---

    def get(self, instance_id: str) -> Kept | None:
        return self._kept.get(instance_id)

    @property
    def instance_ids(self) -> Set[str]:
        return self._kept.keys()

    def holds(self, instance_id: str) -> bool:
        """True for an instance that is nobody else's business, whatever state it is in."""
        return instance_id in self._kept

    def holds_for(self, lease: Lease) -> bool:
        """True where the lease's instance is kept after it: its agent has stopped in order."""
        kept = self._kept.get(lease.instance_id or "")
        return kept is not None and kept.lease_id == lease.lease_id

    def of_server(self, user: str, server: str) -> tuple[Kept, ...]:
        """What is kept for a server and still has time, the latest last."""
        now = self.now()
        mine = [k for k in self._kept.values() if (k.user, k.server) == (user, server)]
        return tuple(sorted((k for k in mine if k.until > now), key=lambda k: k.kept_at))

    def serves(self, lease: Lease) -> bool:
        """True for a waiting lease that will have a kept instance: none is launched for it."""
        return any(self._taker(kept) is lease for kept in self._kept.values())

    def why_not_started(self, lease_id: str) -> str:
        """Of a lease that waits for a stopped instance which EC2 was too busy to start; else
        empty."""
        asked = (k for k in self._kept.values() if k.started_for == lease_id)
        return next((self.starts.why_not(lease_id, kept.instance_id) for kept in asked), "")

    def lease_for(self, instance: Instance, pending_time: datetime) -> Lease | None:
        """The lease that takes a kept instance whose agent claims; `pending_time` is that of its
        identity document."""
        kept = self._kept[instance.instance_id]
        lease = self._taker(kept)
        if lease is None or kept.then != "stop":
            return lease
        if kept.started_for != lease.lease_id:
            return None  # running still, or again: it is being stopped
        return lease if is_of_a_later_boot(kept, pending_time) else None

    # --- a server stops ---

    def decide(self, lease: Lease, stop: Stop) -> Stop:
        """The stop with what becomes of the instance, in a field for the agent and in words."""
        instance = self.instance_cache.instances.get(lease.instance_id or "")
        if lease.state is not LeaseState.READY or instance is None or instance.state in GONE:
            return stop
        stopped = [k for k in self._kept.values() if k.user == lease.user and k.then == "stop"]
        contact, market = self.registry.contact(lease.lease_id), Market(instance.market)
        decision = decide(
            lease.after_stop,
            stop.reason,
            market=market,
            agent_can=contact.protocol >= 2,
            reclaimed=market is Market.SPOT and contact.interruption_at is not None,
            stopped_already=sum(k.instance_id != lease.instance_id for k in stopped),
        )
        return _told(stop, decision)

    async def keep(self, lease: Lease) -> Kept | None:
        """Keep the instance of a lease that has ended in order; None where that cannot be."""
        kept = self._kept.get(lease.instance_id or "") or self._new(lease)
        if kept is None:
            return None
        try:
            await self._save(kept)
        except StoreError as error:
            log.error("%s cannot be kept: %s", kept.instance_id, error)
            return None
        self.claims.heard(kept.instance_id)
        log.info("%s of %r is kept: %s", kept.instance_id, kept.user, kept.then)
        if kept.then == "stop":
            self._call(kept, self._stop(kept))
        return kept

    def _new(self, lease: Lease) -> Kept | None:
        instance = self.instance_cache.instances.get(lease.instance_id or "")
        if instance is None or instance.state in GONE or lease.stop is None:
            return None
        now = self.now()
        return Kept(
            instance_id=instance.instance_id,
            user=lease.user,
            server=lease.server,
            lease_id=lease.lease_id,
            profile=lease.profile,
            profile_name=lease.profile_name,
            then=lease.stop.then,
            fit_key=fit_key_of(lease.spec, lease.stop.then),
            kept_at=now,
            until=now + timedelta(seconds=lease.after_stop.seconds),
            launched_at=instance.launched_at,
            disk_gib=lease.spec.disk_gib,
        )

    async def forget(self, instance_id: str) -> None:
        """It is a lease's again, or gone."""
        if self._kept.pop(instance_id, None) is not None:
            self._called.pop(instance_id, None)
            await asyncio.shield(self.store.forget_kept(instance_id))

    async def take_start_back(self, instance_id: str) -> None:
        """It was started in vain, as if nobody had asked. The next pass stops it, and begins anew
        from there for whoever waits for it. Raises `StoreError`, and then nothing has changed."""
        kept = self._kept[instance_id]
        self._waited_since.pop((kept.started_for, False), None)
        await self._save(replace(kept, started_for=""))

    async def give_up(self, user: str, server: str) -> None:
        """What is kept for a server shall end: its user begins afresh, or is gone."""
        now = self.now()
        for kept in self.of_server(user, server):
            await self._save(replace(kept, until=now))

    async def rename(self, user: str, server: str, new: str) -> None:
        """What is kept for a server waits for it under its new name. Raises `StoreError`."""
        for kept in self.of_server(user, server):
            await self._save(replace(kept, server=new))

    # --- every pass ---

    def clock_was_set(self, by: timedelta) -> None:
        """What is told by the wall clock moves with it."""
        if not by or not self._kept:
            return
        now = self.now()
        self._kept = {each: moved_with_clock(kept, by, now) for each, kept in self._kept.items()}
        self.spawn_task(self._save_all(), "times of what is kept")

    async def _save_all(self) -> None:
        for instance_id in list(self._kept):
            if kept := self._kept.get(instance_id):
                await self._save(kept)

    async def follow(self, now: datetime) -> None:
        self.starts.forget_ended()
        waiting = {lease.lease_id for lease in self.registry.open(LeaseState.WAITING)}
        self._waited_since = {x: at for x, at in self._waited_since.items() if x[0] in waiting}
        for kept in list(self._kept.values()):
            await self._follow(kept, now)

    async def _follow(self, kept: Kept, now: datetime) -> None:
        holder = self.registry.of_instance(kept.instance_id)
        instance = self.instance_cache.instances.get(kept.instance_id)
        if holder is not None:
            if holder.lease_id != kept.lease_id:
                await self.forget(kept.instance_id)
        elif self.instance_cache.is_gone(kept.instance_id):
            if instance is not None:
                await self._account(kept, instance)
            await self.forget(kept.instance_id)
        elif instance is not None and self._serves_unknown(kept, instance):
            # The store is an older one: JupyterHub is asked for that server before it may end.
            log.warning("%s is not kept any more: it serves another lease", kept.instance_id)
            await self.forget(kept.instance_id)
        elif instance is not None:
            taker = self._taker(kept)
            if taker is not None:
                await self._bring(kept, instance, taker)
            elif why := self._why_surplus(kept, instance, now):
                await self._end(kept, instance, why)
            elif kept.then == "stop" and instance.state in UPTIME:
                await self._stop_again(kept, instance)

    def _serves_unknown(self, kept: Kept, instance: Instance) -> bool:
        """True for an instance that was given to a lease of which this store knows nothing."""
        lease_id = instance.tags.get(LEASE, kept.lease_id)
        return lease_id != kept.lease_id and not self.registry.knows(lease_id)

    def _silent_seconds(self, kept: Kept) -> float:
        """Since the agent of a lingering instance was heard; a stopped one has none."""
        return self.claims.silent_seconds(kept.instance_id) if kept.then == "linger" else 0.0

    def _taker(self, kept: Kept) -> Lease | None:
        """The waiting lease that may have this instance as it is now."""
        instance = self.instance_cache.instances.get(kept.instance_id)
        if instance is None or instance.state in GONE:
            return None
        if kept.instance_id in self.claims.unwanted:
            return None
        if kept.then == "linger" and instance.state not in UPTIME:
            return None
        if self._silent_seconds(kept) > CLAIM_SILENCE:
            return None
        machine = supply_of(instance)
        for lease in self.registry.open(LeaseState.WAITING):
            if (lease.user, lease.server) != (kept.user, kept.server):
                continue
            fit_key = fit_key_of(lease.spec, kept.then)
            if may_take(kept, machine, self.need_of(lease), lease.user, lease.server, fit_key):
                return lease
        return None

    def _why_surplus(self, kept: Kept, instance: Instance, now: datetime) -> str:
        elsewhere = any(
            (lease.user, lease.server) == (kept.user, kept.server)
            and lease.lease_id != kept.lease_id
            for lease in self.registry.open()
        )
        if kept.instance_id in self.claims.unwanted:
            return "it was turned away"
        keeps = self.settings.keeps
        if kept.then == "linger" and instance.state not in UPTIME:
            return "it was stopped from outside the hub"
        return why_surplus(
            kept,
            now,
            wanted=keeps is None or (kept.profile, kept.then) in keeps,
            elsewhere=elsewhere,
            silent_seconds=self._silent_seconds(kept),
        )

    async def _bring(self, kept: Kept, instance: Instance, lease: Lease) -> None:
        """Towards the claim of its agent: a lingering one claims by itself."""
        if kept.then == "linger":
            self.claims.wake(kept.instance_id)
            return
        asked = kept.started_for == lease.lease_id
        since = self._waited_since.setdefault((lease.lease_id, asked), self.uptime())
        if self.uptime() - since > self.settings.boot_timeout:
            message = self.why_not_started(lease.lease_id) or late(instance.state, asked=asked)
            await self.fail(lease.lease_id, Stop(reason="failed", message=message))
        elif instance.state is InstanceState.STOPPED:
            if not asked:
                # Before the call: what claims with a new key is then known to be our start.
                kept = replace(kept, started_for=lease.lease_id, asked_at=self.now())
                await self._save(kept)
                self._waited_since[lease.lease_id, True] = self.uptime()
                story = "Starting your kept machine"
                await self.registry.note(lease.lease_id, Step.BOOT, story, kept.instance_id)
            self._call(kept, self.starts.start(kept.instance_id, lease))
        elif instance.state in UPTIME and not asked:
            await self._stop_again(kept, instance)  # awake for nobody: begin from its stop

    async def _stop_again(self, kept: Kept, instance: Instance) -> None:
        """Awake without a lease: its start was cancelled, or its stop did not get through."""
        if instance.launched_at > kept.launched_at:
            await self._account(kept, instance)
            kept = replace(kept, launched_at=instance.launched_at)
            await self._save(kept)
        self._call(kept, self._stop(kept))

    async def _end(self, kept: Kept, instance: Instance, why: str) -> None:
        if not self._may_call(kept.instance_id):
            return
        log.info("Ending %s, kept for %r/%r: %s", kept.instance_id, kept.user, kept.server, why)
        await self._account(kept, instance)
        await self.terminate([kept.instance_id])

    async def _account(self, kept: Kept, instance: Instance) -> None:
        """What it has cost as nobody's, up to now, is overhead; stopped, it costs nothing."""
        start = kept.kept_at
        if kept.then == "stop":
            if instance.state not in UPTIME or instance.launched_at <= kept.launched_at:
                return
            start = max(start, instance.launched_at)
        segment = self.prices.segment(instance, start, max(self.now(), start))
        key = overhead_key(instance.launched_at, kept.lease_id)
        await self.store.save_overhead_sooner_or_later(segment, key)

    # --- calls ---

    def _may_call(self, instance_id: str) -> bool:
        """Whether it is time for another call about this instance; it counts as made."""
        now = asyncio.get_running_loop().time()
        pace = CALL_PACE * self.settings.busy_interval
        if now - self._called.get(instance_id, float("-inf")) < pace:
            return False
        self._called[instance_id] = now
        return True

    def _call(self, kept: Kept, call: Coroutine[Any, Any, None]) -> None:
        if self._may_call(kept.instance_id):
            self.spawn_task(call, f"kept {kept.instance_id}")
        else:
            call.close()

    async def _stop(self, kept: Kept) -> None:
        try:
            await self.cloud.stop([kept.instance_id])
        except CloudError as error:
            log.warning("Stopping %s: %s", kept.instance_id, error)
            if not error.retryable and error.code != "IncorrectInstanceState":
                # It will never be stopped, and it costs money: given up.
                await self._save(replace(kept, until=min(kept.until, self.now())))
        self.instance_cache.refresh_soon()

    async def _save(self, kept: Kept) -> None:
        """Raises `StoreError`, and then nothing has changed: what is done must be stored before."""
        before = self._kept.get(kept.instance_id)
        self._kept[kept.instance_id] = kept
        try:
            await asyncio.shield(self.store.save_kept(kept))
        except StoreError:
            if self._kept.get(kept.instance_id) is kept:
                del self._kept[kept.instance_id]
                if before is not None:
                    self._kept[kept.instance_id] = before
            raise


def _told(stop: Stop, decision: Decision) -> Stop:
    if not decision.why_not:
        return stop.model_copy(update={"then": decision.then})
    said = stop.message.rstrip(". ")
    words = f"{said}. Its machine was not kept: {decision.why_not}" if said else decision.why_not
    return stop.model_copy(update={"then": decision.then, "message": words[:500]})


def keeps_of(after_stop: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """`Settings.keeps` from what becomes of each profile's instances, by slug."""
    return frozenset((slug, then) for slug, then in after_stop.items() if then != "terminate")

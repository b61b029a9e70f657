"""Instances that wait for their user: kept at a stop, taken at the next start, ended in time.

What is kept is stored before anything is done about it, and so is each start of a stopped
instance. Every pass looks at all of them anew: what they are, who may take them, and whether
they are surplus. The rules are `core.instances.retention_rules`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from ...core.instances.retention_rules import CLAIM_SILENCE, Kept, why_surplus
from ...core.tags import LEASE
from ...wire import Step, Stop
from ..homes.volumes import HomeVolumes
from ..instances.boot_logs import BootLogs
from ..instances.closed_segments import MAX_WITHOUT_HUB
from ..instances.demand import RUNNING, has_served, silent_seconds, taker
from ..instances.overhead import Overhead
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import POWERED_OFF, Instance, InstanceState
from ..model.leases.lease import Home, Lease, LeaseState
from ..offers.offers import Offers
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .disk_protection import DiskProtection
from .restart import RetainedRestarts
from .restart_failure import late, stopped_again
from .running_costs import unpaid_since

log = logging.getLogger(__name__)

CALL_PACE: Final = 5.0
"""Between two calls for one instance, in busy intervals: ten seconds."""


@dataclass(slots=True)
class Retention:
    """Sees to every retained instance: brings it to its user, stops it, or lets it end."""

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    overhead: Overhead
    offers: Offers
    boot_logs: BootLogs
    tasks: TaskGroup
    restarts: RetainedRestarts = field(init=False)
    disks: DiskProtection = field(init=False)
    _called: dict[str, float] = field(default_factory=dict)
    """By instance id: when EC2 was last asked to stop or start it, on the loop's clock."""
    _closing: set[str] = field(default_factory=set)
    """Ids of unlisted instances whose account is being closed."""
    _waited_since: dict[tuple[str, bool], float] = field(default_factory=dict)
    """By lease id, and whether its start was asked for: since when, in seconds awake, it has
    waited for its stopped instance."""

    def __post_init__(self) -> None:
        self.disks = DiskProtection(self.cloud)
        self.restarts = RetainedRestarts(self.state, self.cloud, self.offers, self.disks)

    def why_not_started(self, lease_id: str) -> str:
        """Of a lease that waits for a stopped instance which EC2 was too busy to start; else
        empty."""
        asked = (k for k in self.state.retained.all() if k.started_for == lease_id)
        return next((self.restarts.why_not(lease_id, kept.instance_id) for kept in asked), "")

    # --- every pass ---

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`; calls to EC2 are made in the background."""
        self.restarts.forget_ended()
        waiting = {lease.lease_id for lease in self.state.leases.open(LeaseState.WAITING)}
        self._waited_since = {x: at for x, at in self._waited_since.items() if x[0] in waiting}
        here = self.state.retained.instance_ids
        self.disks.forget_others(here)
        self._called = {each: at for each, at in self._called.items() if each in here}
        for each in self.state.retained.all():
            # As it is now: it may have changed while others were followed.
            kept = self.state.retained.get(each.instance_id)
            if kept is not None and not self.state.retained.is_withheld(kept):
                await self._follow(kept, now)

    async def _follow(self, kept: Kept, now: datetime) -> None:
        holder = self.state.leases.of_instance(kept.instance_id)
        instance = self.state.instances.listed.get(kept.instance_id)
        if holder is not None:
            if holder.lease_id != kept.lease_id:
                # A hub that ended while it assigned the lease may not have stored that.
                await self._account_disks(kept, instance, _held_since(holder))
                await self.state.retained.forget(kept)
        elif self.state.instances.is_gone(kept.instance_id):
            if instance is None:
                self._close_unlisted(kept, now)
            else:
                await self._account(kept, instance)
                await self.state.retained.forget(kept)
        elif instance is not None and kept.is_ahead and has_served(self.state, instance):
            await self.state.retained.forget(kept)
        elif instance is not None and self._serves_unknown(kept, instance):
            # The store is an older one: JupyterHub is asked for that server before it may end.
            log.warning("%s is not kept any more: it serves another lease", kept.instance_id)
            await self._account_disks(kept, instance, max(kept.kept_at, instance.launched_at))
            await self.state.retained.forget(kept)
        elif instance is not None and kept.is_of_pool:
            await self._follow_of_pool(kept, instance)
        elif instance is not None:
            lease = taker(self.state, kept)
            if lease is not None:
                await self._bring(kept, instance, lease)
            elif why := self._why_surplus(kept, instance, now):
                await self._end(kept, instance, why)
            elif kept.then == "stop" and instance.state in RUNNING:
                await self._stop_again(kept, instance)
            elif instance.state is InstanceState.STOPPED:
                self._free_home(kept, instance)

    def _free_home(self, kept: Kept, instance: Instance) -> None:
        """Detach a home that could not be unmounted: its instance has shut down.

        Only the listing of the instance counts: one of volumes that was read before the home was
        attached, and answered after it, says that the home is free.
        """
        home = self.state.homes.of(kept.user, kept.server)
        if home is not None and home.volume_id in instance.volumes.values():
            self._call(kept, self._detach(home, kept.instance_id))

    async def _detach(self, home: Home, instance_id: str) -> None:
        try:
            await self.volumes.detach_from(home, instance_id)
        except CloudError as error:
            log.warning("Detaching %s of a stopped instance: %s", home.volume_id, error)

    async def _follow_of_pool(self, kept: Kept, instance: Instance) -> None:
        """What `pool.stopped_places` has decided."""
        if why := self.state.pool_starts.unwanted.get(kept.instance_id):
            await self._end(kept, instance, why)
        elif kept.asked_at is None and instance.state in RUNNING:
            await self._stop_again(kept, instance)

    def _serves_unknown(self, kept: Kept, instance: Instance) -> bool:
        """True for an instance that was given to a lease of which this store knows nothing.

        Tags lag: those of a stopped one that nobody else has started are of an earlier lease.
        """
        if kept.then == "stop" and (kept.started_for or not _has_run_since(kept, instance)):
            return False
        lease_id = instance.tags.get(LEASE, kept.lease_id)
        return lease_id != kept.lease_id and not self.state.leases.knows(lease_id)

    def _why_surplus(self, kept: Kept, instance: Instance, now: datetime) -> str:
        if kept.instance_id in self.state.claims.unwanted:
            return "it was turned away"
        keeps = self.state.settings.keeps
        if kept.then == "linger" and instance.state not in RUNNING:
            return "it was stopped from outside the hub"
        if self.state.blocks.is_closing(instance, now):
            return "its Capacity Block ends"
        if kept.then == "linger" and self.state.scheduled_events.left_at(instance) is not None:
            return "AWS has announced that it stops or reboots it"
        return why_surplus(
            kept,
            now,
            wanted=kept.is_ahead or keeps is None or (kept.profile, kept.then) in keeps,
            elsewhere=self._is_elsewhere(kept),
            is_silent=silent_seconds(self.state, kept) > CLAIM_SILENCE,
        )

    def _is_elsewhere(self, kept: Kept) -> bool:
        """Whether its server has another instance, or is getting one.

        A start that is cancelled, or fails, before it has got an instance is getting none: it must
        not take the disk that the next start is promised.
        """
        return any(
            (lease.user, lease.server) == (kept.user, kept.server)
            and lease.lease_id != kept.lease_id
            and (lease.instance_id is not None or lease.state is not LeaseState.ENDING)
            for lease in self.state.leases.open()
        )

    async def _bring(self, kept: Kept, instance: Instance, lease: Lease) -> None:
        """Towards the claim of its agent: a lingering one claims by itself."""
        if kept.then == "linger":
            self.state.claims.wake(kept.instance_id)
            return
        asked = kept.started_for == lease.lease_id
        since = self._waited_since.setdefault((lease.lease_id, asked), self.state.clock.uptime())
        if self.state.clock.uptime() - since > self.state.settings.boot_timeout:
            message = self.why_not_started(lease.lease_id) or late(instance.state, asked=asked)
            await self.state.end(lease.lease_id, Stop(reason="failed", message=message))
        elif instance.state is InstanceState.STOPPED and asked and _has_run_since(kept, instance):
            self._call(kept, self._fail_stopped_again(kept, instance, lease))
        elif instance.state is InstanceState.STOPPED:
            if not asked:
                # Before the call: what claims with a new key is then known to be our start.
                kept = replace(
                    kept,
                    started_for=lease.lease_id,
                    asked_at=self.state.clock.now(),
                    launched_at=instance.launched_at,
                )
                await self.state.retained.save(kept)
                self._waited_since.pop((lease.lease_id, False), None)  # it may begin anew
                self._waited_since[lease.lease_id, True] = self.state.clock.uptime()
                story = "Starting your kept machine"
                await self.state.leases.note(lease.lease_id, Step.BOOT, story, kept.instance_id)
            self._call(kept, self.restarts.start(kept.instance_id, lease))
        elif instance.state in RUNNING and not asked:
            await self._stop_again(kept, instance)  # awake for nobody: begin from its stop

    async def _fail_stopped_again(self, kept: Kept, instance: Instance, lease: Lease) -> None:
        """Started for a lease, it powered itself off, or EC2 undid the start: another boot would
        be the same."""
        itself = instance.state_reason == POWERED_OFF
        said = await self.boot_logs.end_of(kept.instance_id) if itself else ""
        why = instance.state_message or instance.state_reason
        log.error("%s, started again, has stopped: %s", kept.instance_id, why)
        await self.overhead.of_retained(kept, instance, max(kept.kept_at, instance.launched_at))
        stop = Stop(reason="failed", message=stopped_again(instance, said))
        await self.state.end(lease.lease_id, stop)

    async def _stop_again(self, kept: Kept, instance: Instance) -> None:
        """It runs without a lease: its start was cancelled, or its stop did not get through."""
        if _has_run_since(kept, instance):
            await self._account(kept, instance)
            if self.state.retained.get(kept.instance_id) is not kept:
                return  # the next pass sees what it is now
            kept = replace(kept, launched_at=instance.launched_at)
            await self.state.retained.save(kept)
        self._call(kept, self._stop(kept))

    async def _end(self, kept: Kept, instance: Instance, why: str) -> None:
        if not self._may_call(kept.instance_id):
            return
        whose = "the warm pool" if kept.is_of_pool else f"{kept.user!r}/{kept.server!r}"
        log.info("Ending %s, kept for %s: %s", kept.instance_id, whose, why)
        await self._account(kept, instance)
        # A start that takes it forgets the record once its lease is stored.
        is_taken = self.state.leases.of_instance(kept.instance_id) is not None
        if is_taken or self.state.retained.get(kept.instance_id) is not kept:
            return  # the next pass sees what it is now
        self.state.claims.turn_away([kept.instance_id])
        self.state.condemned.add(kept.instance_id)

    async def _account(self, kept: Kept, instance: Instance) -> None:
        """What it has cost as nobody's, up to now, is overhead; stopped, only its disks cost."""
        await self._account_disks(kept, instance)
        start = unpaid_since(kept, instance)
        if start is not None:
            await self.overhead.of_retained(kept, instance, start)

    async def _account_disks(
        self, kept: Kept, instance: Instance | None, until: datetime | None = None
    ) -> None:
        if kept.then == "stop":
            await self.overhead.of_disks(kept, instance, until)

    def _close_unlisted(self, kept: Kept, now: datetime) -> None:
        """It ended while no hub ran. EC2 lists an ended instance for about an hour."""
        if kept.instance_id not in self._closing:
            self._closing.add(kept.instance_id)
            self.tasks.spawn(self._account_unlisted(kept, now), f"kept {kept.instance_id}")

    async def _account_unlisted(self, kept: Kept, now: datetime) -> None:
        try:
            start = _ran_unlisted_since(kept)
            if start is not None:
                end = await self._ran_until(kept, start, now)
                await self.overhead.of_unlisted(kept, start, end)
            # Nothing says when it was terminated: no metrics are of a volume that is gone.
            await self._account_disks(kept, None, min(kept.until, now))
            await self.state.retained.forget(kept)
        finally:
            self._closing.discard(kept.instance_id)

    async def _ran_until(self, kept: Kept, start: datetime, now: datetime) -> datetime:
        """Its metrics outlive the listing. Without them, it is charged as long as it was kept."""
        at_most = min(kept.until, now)
        if kept.is_of_pool:
            at_most = min(at_most, start + MAX_WITHOUT_HUB)
        try:
            ran = await self.cloud.ran_until([kept.instance_id], start, now)
        except CloudError as error:
            log.error(
                "When %s ended is not known, so it is charged until %s. CloudWatch: %s",
                kept.instance_id,
                at_most,
                error,
            )
            return at_most
        # None of a lingering one: it ended within minutes, before the first value.
        return ran.get(kept.instance_id, at_most if kept.then == "linger" else start)

    # --- calls ---

    def _may_call(self, instance_id: str) -> bool:
        """Whether it is time for another call about this instance; it counts as made."""
        now = asyncio.get_running_loop().time()
        pace = CALL_PACE * self.state.settings.busy_interval
        if now - self._called.get(instance_id, float("-inf")) < pace:
            return False
        self._called[instance_id] = now
        return True

    def _call(self, kept: Kept, call: Coroutine[Any, Any, None]) -> None:
        if self._may_call(kept.instance_id):
            self.tasks.spawn(call, f"kept {kept.instance_id}")
        else:
            call.close()

    async def _stop(self, kept: Kept) -> None:
        try:
            if not kept.is_of_pool:  # nobody's files: one that powers itself off shall end
                await self.disks.protect(kept.instance_id)
            await self.cloud.stop([kept.instance_id])
        except CloudError as error:
            log.warning("Stopping %s: %s", kept.instance_id, error)
            if not error.retryable and error.code != "IncorrectInstanceState":
                # It will never be stopped, and it costs money: given up.
                until = min(kept.until, self.state.clock.now())
                if self.state.retained.is_current(kept):
                    await self.state.retained.save(replace(kept, until=until))
        self.state.instances.refresh_soon()


def _has_run_since(kept: Kept, instance: Instance) -> bool:
    """Whether it was started after it was kept, or after it was last stopped again."""
    return instance.launched_at > kept.launched_at


def _ran_unlisted_since(kept: Kept) -> datetime | None:
    """Since when it may have run without a lease, until no listing showed it any more; None for a
    stopped one that nobody has started since."""
    if kept.is_ahead:
        return kept.launched_at
    if kept.then == "linger":
        return kept.kept_at
    is_started = kept.asked_at is not None and kept.asked_at > kept.launched_at
    return kept.asked_at if is_started else None


def _held_since(lease: Lease) -> datetime | None:
    """Since when a lease pays for the instance that it has, and for its disks."""
    paid = (each.start for each in lease.segments if each.instance_id == lease.instance_id)
    return next(paid, lease.assigned_at)


def keeps_of(after_stop: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """`Settings.keeps` from what becomes of each profile's instances, by slug."""
    return frozenset((slug, then) for slug, then in after_stop.items() if then != "terminate")

"""The one way on which every lease ends, whatever the reason.

Save, stop, unmount (the agent) -> detach -> terminate -> close the account. A step that fails is
made good by the next reconcile pass: an instance whose lease has ended is always surplus.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...core.pricing.money import close, overhead_key
from ...wire import Market, Stop
from ..homes.volumes import Homes
from ..instances.claims import Claims
from ..model import metrics
from ..model.cloud import Cloud, CloudError, Instance
from ..model.lease import OPEN, Lease, LeaseState
from ..model.settings import Settings
from ..offers.prices import PriceCache
from ..retention.retention import Retention
from ..state.instance_cache import InstanceCache
from ..state.lease_registry import LeaseRegistry
from ..store.store import Store, StoreError

log = logging.getLogger(__name__)

TAKEN_BACK = Stop(reason="interruption", message="AWS took the spot machine back")


@dataclass(slots=True)
class Termination:
    registry: LeaseRegistry
    store: Store
    cloud: Cloud
    claims: Claims
    homes: Homes
    retention: Retention
    prices: PriceCache
    instance_cache: InstanceCache
    settings: Settings
    now: Callable[[], datetime]
    spawn_task: Callable[[Coroutine[Any, Any, None], str], None]
    wake: Callable[[], None]
    ended: Callable[[Lease], None]
    """Told of each lease that has ended."""
    _stopped: dict[str, asyncio.Event] = field(default_factory=dict)
    """By lease id: set when the agent reports that notebook and home are closed."""
    _asked: dict[str, float] = field(default_factory=dict)
    """By instance id: when its termination was last asked for, on the loop's clock."""

    async def begin(self, lease_id: str, stop: Stop) -> None:
        """Start to end a lease; the first reason stays. Returns once that is stored, or cannot be.

        A lease without a running notebook has nothing to save and is released right away.
        """
        lease = self.registry.get(lease_id)
        if lease is None or lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
            return
        stop = self.retention.decide(lease, self._as_ec2_announced(lease, stop))
        log.info("Ending %s (%s): %s %s", lease_id, lease.state, stop.reason, stop.message)
        self._stopped[lease_id] = asyncio.Event()
        self.spawn_task(self._finish(lease), f"end {lease_id}")
        self.registry.tell_agent(lease_id)  # its beat wakes after the change, and before the store
        try:
            await self.registry.change(lease_id, state=LeaseState.ENDING, stop=stop)
        except StoreError as error:
            log.error("That %s ends is not stored yet: %s", lease_id, error)

    def _as_ec2_announced(self, lease: Lease, stop: Stop) -> Stop:
        """A machine that EC2 takes is shut down, or falls silent, before a listing says why."""
        current = lease.segments[-1] if lease.segments else None
        is_announced = (
            lease.state is LeaseState.READY
            and current is not None
            and current.market == Market.SPOT
            and self.registry.contact(lease.lease_id).interruption_at is not None
        )
        return TAKEN_BACK if is_announced and stop.reason in {"failed", "lost"} else stop

    async def wait_ended(self, lease_id: str, timeout: float) -> None:
        """Wait until a lease that is ending has ended. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            while (lease := self.registry.get(lease_id)) and lease.state in OPEN:
                await self.registry.wait_for_change(lease_id, timeout)

    async def wait_agent_stopped(self, lease_id: str, timeout: float) -> None:
        """Wait until the agent of a lease that is ending has closed notebook and home, or for
        `timeout` seconds."""
        if (stopped := self._stopped.get(lease_id)) is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await stopped.wait()

    def resume(self) -> None:
        """See to leases that are ending while nothing does: the hub stopped, or a step failed."""
        for lease in self.registry.open(LeaseState.ENDING):
            if lease.lease_id not in self._stopped:
                self._stopped[lease.lease_id] = asyncio.Event()
                self.spawn_task(self._finish(lease), f"end {lease.lease_id}")

    def agent_stopped(self, lease: Lease) -> None:
        """The agent says: notebook stopped, home unmounted."""
        if event := self._stopped.get(lease.lease_id):
            event.set()

    def instance_gone(self, lease: Lease) -> None:
        """Nothing is left to wait for."""
        self.agent_stopped(lease)

    async def _finish(self, lease: Lease) -> None:
        try:
            await self._release(lease)
            await self._close(lease.lease_id)
        finally:
            self._stopped.pop(lease.lease_id, None)

    async def _release(self, lease: Lease) -> None:
        """The home and the instance, once the agent has saved or took too long."""
        graceful = lease.ready_at is not None
        # Kept is stored only once the agent has stopped: after a crash it is not there to ask.
        in_order = graceful and (
            self.retention.holds_for(lease) or await self._has_stopped(lease.lease_id)
        )
        if lease.instance_id is None:
            return
        is_kept = in_order and self._is_to_be_kept(lease.lease_id)
        if not is_kept:
            self.claims.turn_away([lease.instance_id])
        if graceful and not self.instance_cache.is_gone(lease.instance_id):
            await self.homes.detach(lease)
        if is_kept and await self._keep(lease.lease_id):
            return
        try:
            await self.retention.forget(lease.instance_id)
        except StoreError as error:  # found gone by the next process
            log.warning("That %s is not kept is not stored: %s", lease.instance_id, error)
        await self.terminate([lease.instance_id])

    async def _has_stopped(self, lease_id: str) -> bool:
        """True once the agent has said so; False when it took too long."""
        try:
            async with asyncio.timeout(self.settings.stop_timeout):
                await self._stopped[lease_id].wait()
        except TimeoutError:
            log.warning("The agent of %s did not report its stop in time", lease_id)
            return False
        return True

    def _is_to_be_kept(self, lease_id: str) -> bool:
        lease = self.registry.get(lease_id)
        return lease is not None and lease.stop is not None and lease.stop.then != "terminate"

    async def _keep(self, lease_id: str) -> bool:
        lease = self.registry.get(lease_id)
        return lease is not None and await self.retention.keep(lease) is not None

    async def _close(self, lease_id: str) -> None:
        """The account; then everybody is told, also where that could not be stored yet."""
        now, lease = self.now(), self.registry.get(lease_id)
        assert lease is not None
        # From then on it is the hub's overhead.
        kept = self.retention.get(lease.instance_id or "")
        try:
            await self.registry.change(
                lease_id,
                state=LeaseState.ENDED,
                ended_at=now,
                segments=close(lease.segments, kept.kept_at if kept else now),
                sealed_start="",
            )
        except StoreError as error:
            log.error("The end of %s is not stored yet: %s", lease_id, error)
        reason = lease.stop.reason if lease.stop else "failed"
        metrics.ENDED.labels(reason).inc()
        self.registry.tell_agent(lease_id)
        self.ended(self.registry.get(lease_id) or lease)
        self.wake()

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate; a failure is logged and made good by the next pass."""
        if not instance_ids:
            return
        self._asked |= dict.fromkeys(instance_ids, asyncio.get_running_loop().time())
        self.claims.turn_away(instance_ids)
        try:
            await self.cloud.terminate(instance_ids)
        except CloudError as error:
            log.warning("Terminating %s: %s; trying again", ", ".join(instance_ids), error)
        else:
            self.instance_cache.refresh_soon()

    async def terminate_unleased(self, instances: Sequence[Instance]) -> None:
        """Terminate instances that belong to no lease and account for what they cost.

        One that was asked to end a moment ago is left alone: listings lag, and a call that EC2
        refuses is not repeated at the speed of passes.
        """
        latest = asyncio.get_running_loop().time() - self.settings.busy_interval
        self._asked = {each: at for each, at in self._asked.items() if at > latest}
        instances = [each for each in instances if each.instance_id not in self._asked]
        if not instances:
            return  # most passes: nothing to read from the store
        instance_ids = [instance.instance_id for instance in instances]
        # At once: a claim that comes before the call begins would still get one of them.
        self.claims.turn_away(instance_ids)
        # Beside the call as well: a hub that is killed during it would never tell what they cost.
        await asyncio.gather(self._account_for(instances), self.terminate(instance_ids))
        await self._account_for(instances)

    async def _account_for(self, instances: Sequence[Instance]) -> None:
        now = self.now()
        for instance in instances:
            await self._account(instance, now)

    async def _account(self, instance: Instance, until: datetime) -> None:
        """What it has cost since its last lease, or since its launch, is overhead.

        All of it is done again by a later pass where the store fails, also what is read: the next
        listing may not show the instance any more.
        """
        # One that just ended may not be stored yet.
        remembered = self.registry.last_served(instance.instance_id)

        async def save() -> None:
            # Leases of an earlier process are not in memory.
            last = remembered or await self.store.last_served(instance.instance_id)
            follows, start = last or ("", instance.launched_at)
            segment = self.prices.segment(instance, start, max(until, start))
            await self.store.save_overhead(segment, overhead_key(instance.launched_at, follows))

        about = f"overhead of {instance.instance_id}, which served nobody at its end"
        await self.store.write_behind.sooner_or_later(about, save)

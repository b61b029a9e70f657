"""The one way on which every lease ends, whatever the reason.

Save, stop, unmount (the agent) -> detach -> terminate -> close the account. A step that fails is
made good by the next reconcile pass: an instance whose lease has ended is always surplus.

A home is detached only once its agent has unmounted it. Otherwise the instance is terminated, which
shuts its system down and flushes what is mounted, and EC2 detaches the volume after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.ledger.instance_end import ends_free
from ...core.ledger.segments import Segment, close
from ...core.sleep.spot_events import NOTICE, OVERDUE
from ...core.sleep.step_budgets import FLUSH_SECONDS
from ...wire import Market, Then
from ..homes.volumes import HomeVolumes
from ..instances.closed_segments import closed_segments, wait_for_prices
from ..instances.surplus import terminate
from ..model import metrics
from ..model.cloud.cloud import Cloud
from ..model.leases.costs import scopes_of
from ..model.leases.lease import LIVE, OPEN, Lease, LeaseState
from ..offers.prices import PriceCache
from ..runtime.task_group import TaskGroup
from ..state.agent_contact import FLUSH_SILENCE
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

LEFT_TO_EC2: Final = (NOTICE + OVERDUE).total_seconds()
"""For so long at most an instance is left to EC2, whatever its agent has announced."""

GONE_PAUSE: Final = 1.0
"""Seconds between two looks whether it has."""


@dataclass(slots=True)
class Termination:
    """Sees to every lease that is ending, also where an earlier process had begun to.

    A lease without a running notebook has nothing to save and is released right away.
    """

    state: State
    cloud: Cloud
    volumes: HomeVolumes
    prices: PriceCache
    tasks: TaskGroup
    ended: Callable[[Lease], None]
    """Called with each lease that has ended: the hub notifies its server."""
    _busy: set[str] = field(default_factory=set)
    """Ids of the leases that are being seen to."""

    async def reconcile(self, now: datetime) -> None:
        """In the background: an agent has a minute to save."""
        gone = set(filter(self.state.instances.is_gone, self.state.terminated_with_home))
        self.state.terminated_with_home -= gone
        for lease in self.state.leases.open(LeaseState.ENDING):
            if lease.lease_id not in self._busy:
                self._busy.add(lease.lease_id)
                self.tasks.spawn(self._finish(lease), f"end {lease.lease_id}")

    async def wait_ended(self, lease_id: str, timeout: float) -> None:
        """Wait until a lease that is ending has ended.

        Raises `TimeoutError` after `timeout` seconds; after `FLUSH_SECONDS` more, if its agent
        flushes the home.
        """
        leases, loop = self.state.leases, asyncio.get_running_loop()
        deadline = loop.time() + timeout
        latest = deadline + FLUSH_SECONDS
        while (lease := leases.get(lease_id)) and lease.state in OPEN:
            if leases.contact(lease_id).is_flushing(loop.time()):
                deadline = min(loop.time() + timeout, latest)
            if (left := deadline - loop.time()) <= 0:
                raise TimeoutError
            await leases.wait_for_change(lease_id, left)

    async def wait_agent_stopped(self, lease_id: str, timeout: float) -> None:
        """Wait until the agent of a lease that is ending has closed notebook and home, or for
        `timeout` seconds."""
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.state is not LeaseState.ENDING:
            return
        with contextlib.suppress(TimeoutError):
            await self.state.leases.wait_agent_stopped(lease_id, timeout)

    def stop_seconds(self, lease_id: str) -> float:
        """How long the agent of a lease that is ending may take, the saving of its session
        included."""
        lease = self.state.leases.get(lease_id)
        saving = lease.stop.save_seconds if lease is not None and lease.stop else 0.0
        return self.state.settings.stop_timeout + saving

    async def _finish(self, lease: Lease) -> None:
        try:
            await self._release(lease)
            await self._close(lease.lease_id)
        finally:
            self._busy.discard(lease.lease_id)
            self.state.stopping_since.pop(lease.lease_id, None)

    async def _release(self, lease: Lease) -> None:
        """The home and the instance, once the agent has saved or took too long."""
        state = self.state
        is_released = await self._has_released(lease)
        if lease.instance_id is None:
            return
        is_kept = self._may_be_kept(lease, is_released=is_released)
        if not is_kept:
            state.claims.turn_away([lease.instance_id])
        if is_released and not state.instances.is_gone(lease.instance_id):
            await self.volumes.detach(lease)
        if is_kept and await self._retain(lease.lease_id):
            return
        try:
            await state.retained.forget_instance(lease.instance_id)
        except StoreError as error:  # found gone by the next process
            log.warning("That %s is not kept is not stored: %s", lease.instance_id, error)
        is_free = is_released or lease.home_kind != "ebs"
        if not is_free:
            state.terminated_with_home.add(lease.instance_id)
        if not (is_free and await self._is_taken_back(lease)):
            await terminate(state, self.cloud, [lease.instance_id])

    def _may_be_kept(self, lease: Lease, *, is_released: bool) -> bool:
        """Whether the instance is retained: one with a home that may be mounted only if it is to be
        stopped, which flushes. `Retention` detaches the home after that."""
        match self._then(lease.lease_id):
            case "linger":
                return is_released
            case "stop":
                has_stopped = self.state.leases.contact(lease.lease_id).agent_stopped
                is_stored = self.state.retained.holds_for(lease)
                return is_released or has_stopped or is_stored or lease.on_retained
        return False

    def _then(self, lease_id: str) -> Then:
        """What becomes of the instance of a lease that is ending."""
        lease = self.state.leases.get(lease_id)
        return lease.stop.then if lease is not None and lease.stop is not None else "terminate"

    async def _is_taken_back(self, lease: Lease) -> bool:
        """Wait for EC2 to reclaim an instance where that makes it free: what the hub terminates
        is charged. Only where its server continues without it, and without what is attached to it,
        so that nobody waits for this."""
        state, leases = self.state, self.state.leases
        instance, contact = state.instances.instance_of(lease), leases.contact(lease.lease_id)
        reclaimed_at = contact.interruption_at
        if instance is None or instance.market is not Market.SPOT or reclaimed_at is None:
            return False
        is_rehearsed = instance.instance_id in state.interruptions.rehearsed
        if is_rehearsed or not ends_free(instance.launched_at, reclaimed_at):
            return False
        latest = state.clock.uptime() + LEFT_TO_EC2
        while (
            self._continues_without(lease)
            and not state.instances.is_gone(instance.instance_id)
            and state.clock.uptime() < latest
        ):
            await leases.wait_for_change(lease.lease_id, GONE_PAUSE)
        return state.instances.is_gone(instance.instance_id)

    def _continues_without(self, lease: Lease) -> bool:
        """Whether what a lease worked for continues: its server on another instance, or the server
        of a worker, also where its user has stopped the cluster."""
        leases = self.state.leases
        if not lease.head:
            return leases.open_successor(lease.lease_id) is not None
        head = leases.get(lease.head)
        return head is not None and head.state in LIVE

    async def _has_released(self, lease: Lease) -> bool:
        """Whether the instance has not, or no longer, mounted the home: by what its agent reports
        in time."""
        leases, lease_id = self.state.leases, lease.lease_id
        if self.state.retained.holds_for(lease):
            # Stored once the agent had stopped: after a crash it is not there to ask. One that is
            # to be stopped may be kept with a home in use, which `Retention` detaches later.
            return self._then(lease_id) == "linger"
        if lease.ready_at is not None and not await self._agent_stops(lease_id):
            await self._wait_flushed(lease)
        contact, is_gone = leases.contact(lease_id), self.state.instances.is_gone
        awaited = lease.ready_at is not None and lease.home_kind == "ebs"
        if awaited and not contact.home_released and not is_gone(lease.instance_id or ""):
            late, busy = "did not report its stop in time", "could not unmount the home"
            why = busy if contact.agent_stopped else late
            log.warning("The agent of %s %s: EC2 detaches it after the shutdown", lease_id, why)
        return contact.home_released

    async def _agent_stops(self, lease_id: str) -> bool:
        """Wait until its agent has stopped; False where it took too long, over all processes of
        the hub. A user may end the saving of the session meanwhile: `save_seconds` changes."""
        state, leases, loop = self.state, self.state.leases, asyncio.get_running_loop()
        lease = leases.get(lease_id)
        waited = state.stopping_seconds(lease) if lease is not None else 0.0
        began, contact = loop.time() - waited, leases.contact(lease_id)
        state.stopping_since[lease_id] = began
        while not contact.agent_stopped:
            left = began + self.stop_seconds(lease_id) - loop.time()
            if left <= 0:
                return False
            await leases.wait_for_change(lease_id, left)
        return True

    async def _wait_flushed(self, lease: Lease) -> None:
        """Wait longer while the agent reports that it flushes the home.

        The lease pays for it: `FLUSH_SECONDS` more than a stop may take at most, those included for
        which an earlier process has waited. Nobody waits for files that end with the lease.
        """
        leases, loop = self.state.leases, asyncio.get_running_loop()
        if lease.home_kind != "ebs" or lease.mounts.temporary_home:
            return
        contact = leases.contact(lease.lease_id)
        asked = lease.stop_requested_at or self.state.clock.now()
        waited = (self.state.clock.now() - asked).total_seconds()
        left = self.stop_seconds(lease.lease_id) + FLUSH_SECONDS - waited
        deadline = loop.time() + min(max(left, 0.0), FLUSH_SECONDS)
        while contact.is_flushing(loop.time()) and loop.time() < deadline:
            await leases.wait_for_change(lease.lease_id, min(FLUSH_SILENCE, deadline - loop.time()))

    async def _retain(self, lease_id: str) -> bool:
        state, lease = self.state, self.state.leases.get(lease_id)
        if lease is None:
            return False
        kept = await state.retained.retain(lease, state.instances.instance_of(lease))
        if kept is not None:
            state.claims.heard(kept.instance_id)
        return kept is not None

    async def _close(self, lease_id: str) -> None:
        """Close the account, then notify, also if that could not be stored yet."""
        leases, lease = self.state.leases, self.state.leases.get(lease_id)
        assert lease is not None
        await wait_for_prices(self.prices, lease)
        now, lease = self.state.clock.now(), leases.get(lease_id) or lease
        segments = await self._closed_segments(lease, now)
        lease = leases.get(lease_id) or lease
        try:
            await leases.change(
                lease_id,
                state=LeaseState.ENDED,
                ended_at=now,
                segments=segments,
                sealed_start="",
                cluster=lease.cluster and lease.cluster.shape(),
            )
        except StoreError as error:
            log.error("The end of %s is not stored yet: %s", lease_id, error)
        reason = lease.stop.reason if lease.stop else "failed"
        metrics.ENDED.labels(reason).inc()
        leases.notify_agent(lease_id)
        if self.state.runs.holds.release(scopes_of(lease)):
            self.state.runs.announce()
        self.ended(leases.get(lease_id) or lease)
        self.state.wake()

    async def _closed_segments(self, lease: Lease, now: datetime) -> tuple[Segment, ...]:
        """What the lease pays for, up to its end."""
        kept = self.state.retained.get(lease.instance_id or "")
        if kept is not None:  # from then on it is the hub's overhead
            instance = self.state.instances.instance_of(lease)
            segments = self.prices.completed(lease.segments, instance, lease.spec)
            return close(segments, kept.kept_at)
        return await closed_segments(self.state, self.cloud, self.prices, lease, now)

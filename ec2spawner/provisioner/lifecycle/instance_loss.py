"""Instances that are gone: their leases get another one, or end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.instances.matching import lease_for
from ...core.tags import POOL
from ...wire import Stop
from ..instances.demand import needs
from ..instances.supply import supply_of
from ..model.cloud.instance import (
    POWERED_OFF,
    SCHEDULED_STOP,
    SPOT_TERMINATION,
    STOPPED,
    Instance,
    InstanceState,
)
from ..model.leases.lease import Lease, LeaseState
from ..state.instances.interruptions import AWS_STOPS
from ..state.state import RECLAIMED, State
from .start_timeout import STOPPED_GRACE


@dataclass(slots=True)
class InstanceLoss:
    """Finds leases whose instance is gone."""

    state: State

    async def reconcile(self, now: datetime) -> None:
        """Never raises: a change that cannot be stored yet holds nevertheless."""
        await self._find_lost(now)
        self._find_stillborn()

    async def _find_lost(self, now: datetime) -> None:
        """Leases whose instance is gone: another one, or the end."""
        state = self.state
        leased = {lease.instance_id for lease in state.leases.open() if lease.instance_id}
        state.instances.track(leased | state.retained.instance_ids)
        vanished: list[tuple[Lease, Stop]] = []
        for lease in state.leases.open():
            instance = state.instances.instance_of(lease)
            if instance is not None and instance.state in STOPPED:
                await self._stopped(lease, instance)
            if lease.instance_id is None or not state.instances.is_gone(lease.instance_id):
                continue
            stop = self._why_lost(instance, now)
            if lease.state is LeaseState.STARTING:
                state.lose(lease, instance)
            elif lease.state is LeaseState.ENDING:
                state.leases.report_agent_stopped(lease.lease_id, home_released=False)
            elif instance is None:
                vanished.append((lease, stop))
            else:
                await self._end(lease, stop)
        for lease, stop in state.admit_ends(vanished, "EC2 no longer lists them"):
            # Still: a listing may have shown it.
            if state.instances.is_gone(lease.instance_id or ""):
                await self._end(lease, stop)

    def _find_stillborn(self) -> None:
        """Instances that ended by themselves before they had a lease.

        Each counts against the lease it would have served, so that an image which cannot boot
        does not launch without end.
        """
        state, listed = self.state, self.state.instances.listed
        # One that EC2 ended at once was never offered: no listing has shown it alive.
        ended = state.instances.ended(state.offered) | state.launches.take_ended()
        if ended:
            ended -= state.claims.unwanted.keys() | state.leases.served
        for instance_id in ended:
            if POOL in listed[instance_id].tags:
                continue  # no start was to wait for it
            need = lease_for(supply_of(listed[instance_id]), needs(state))
            if need is not None and (lease := state.leases.get(need.lease_id)):
                state.lose(lease, listed[instance_id])
        state.offered = frozenset()

    async def _stopped(self, lease: Lease, instance: Instance) -> None:
        """In the console, by a program, or by itself. A stopped instance would keep its disk, and
        never come back by itself: the lease ends, and the instance with it where it was not
        retained before."""
        if lease.state is LeaseState.READY and self._may_be_outdated(lease, instance):
            return
        if lease.state is LeaseState.READY:
            await self.state.end(lease.lease_id, _why_gone(instance))
            lease = self.state.leases.get(lease.lease_id) or lease
        if instance.state is not InstanceState.STOPPED:
            return  # its agent may still be saving
        if lease.state is LeaseState.ENDING:
            self.state.leases.report_agent_stopped(lease.lease_id, home_released=True)
        elif self.state.held_seconds(lease) >= STOPPED_GRACE:
            self.state.lose(lease, instance)

    def _may_be_outdated(self, lease: Lease, instance: Instance) -> bool:
        """Whether a listing may show a kept instance as it was before it was started for the lease:
        it was stopped before. For a while only, because EC2's clock is not the hub's."""
        ended_at, assigned_at = instance.ended_at, lease.assigned_at
        if ended_at is None or assigned_at is None or ended_at >= assigned_at:
            return False
        return self.state.instances.seen_seconds(instance.instance_id) < STOPPED_GRACE

    def _why_lost(self, instance: Instance | None, now: datetime) -> Stop:
        reclaimed_at = self.state.departures.reclaimed_at(instance)
        if reclaimed_at is not None and now >= reclaimed_at:
            return self.state.departures.stop_of(instance)  # no hub ran when it had to leave
        return _why_gone(instance)

    async def _end(self, lease: Lease, stop: Stop) -> None:
        await self.state.end(lease.lease_id, stop)
        # EC2 detaches what is attached to it.
        self.state.leases.report_agent_stopped(lease.lease_id, home_released=False)


def _why_gone(instance: Instance | None) -> Stop:
    if instance is None:
        return Stop(reason="lost", message="EC2 no longer lists the instance")
    if instance.state_reason == SPOT_TERMINATION:
        return RECLAIMED
    if instance.state_reason == SCHEDULED_STOP:
        return AWS_STOPS
    if instance.state_reason == POWERED_OFF:
        message = (
            "The instance powered itself off: its agent crashed, no hub answered it for long, or "
            "somebody did it"
        )
        return Stop(reason="lost", message=message)
    what = "stopped" if instance.state in STOPPED else "terminated"
    return Stop(reason="lost", message=f"The instance was {what} from outside the hub")

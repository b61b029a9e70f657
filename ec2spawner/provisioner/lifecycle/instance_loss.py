"""Instances that are gone: their leases get another one, or end."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.instances.matching import lease_for
from ...wire import Stop
from ..instances.claims import Claims
from ..instances.inventory import supply_of
from ..model.cloud import (
    GONE,
    SPOT_TERMINATION,
    Instance,
    InstanceState,
)
from ..model.lease import Lease, LeaseState
from ..retention.retention import Retention
from ..state.instance_cache import InstanceCache
from ..state.lease_registry import LeaseRegistry
from .recovery import Recovery
from .start_timeout import POWERED_OFF, STOPPED_GRACE, StartTimeouts
from .termination import TAKEN_BACK, Termination

STOPPED = frozenset({InstanceState.STOPPING, InstanceState.STOPPED})


@dataclass(slots=True)
class InstanceLoss:
    registry: LeaseRegistry
    instance_cache: InstanceCache
    claims: Claims
    start_timeouts: StartTimeouts
    ending: Termination
    retention: Retention
    recovery: Recovery
    on_offer: frozenset[str] = frozenset()
    """Instances that could still take a lease when the last pass looked."""

    async def follow(self) -> None:
        """Leases whose instance is gone: another one, or the end."""
        leased = {lease.instance_id for lease in self.registry.open() if lease.instance_id}
        self.instance_cache.track(leased | self.retention.instance_ids)
        vanished: list[tuple[Lease, Stop]] = []
        for lease in list(self.registry.open()):
            instance = self.instance_cache.instances.get(lease.instance_id or "")
            if instance is not None and instance.state in STOPPED:
                await self._stopped_from_outside(lease, instance)
            if lease.instance_id is None or not self.instance_cache.is_gone(lease.instance_id):
                continue
            stop = _why_gone(instance)
            if lease.state is LeaseState.STARTING:
                self.start_timeouts.ended(lease, instance)
            elif lease.state is LeaseState.ENDING:
                self.ending.instance_gone(lease)
            elif instance is None:
                vanished.append((lease, stop))
            else:
                await self._end(lease, stop)
        for lease, stop in self.recovery.braked(vanished, "EC2 no longer lists them"):
            if self.instance_cache.is_gone(
                lease.instance_id or ""
            ):  # still: a listing may have shown it
                await self._end(lease, stop)

    def replace_stillborn(self) -> None:
        """Instances that ended by themselves before they had a lease.

        Each counts against the lease it would have served, so that an image which cannot boot
        does not launch for ever.
        """
        listed, leased = (
            self.instance_cache.instances,
            {lease.instance_id for lease in self.registry.open()},
        )
        for instance_id in self.on_offer & listed.keys() - self.claims.unwanted.keys() - leased:
            if listed[instance_id].state not in GONE:
                continue
            need = lease_for(supply_of(listed[instance_id]), self.start_timeouts.starting.needs())
            if need is not None and (lease := self.registry.get(need.lease_id)):
                self.start_timeouts.ended(lease, listed[instance_id])
        self.on_offer = frozenset()

    async def _stopped_from_outside(self, lease: Lease, instance: Instance) -> None:
        """In the console, or by a program. A stopped instance would keep its disk, and never
        come back by itself: the lease ends, and the instance with it."""
        if lease.state is LeaseState.READY:
            message = "The instance was stopped from outside the hub"
            await self.ending.begin(lease.lease_id, Stop(reason="lost", message=message))
            lease = self.registry.get(lease.lease_id) or lease
        if instance.state is not InstanceState.STOPPED:
            return  # its agent may still be saving
        if lease.state is LeaseState.ENDING:
            self.ending.instance_gone(lease)
        elif self.start_timeouts.held_seconds(lease) >= STOPPED_GRACE:
            self.start_timeouts.ended(lease, instance)

    async def _end(self, lease: Lease, stop: Stop) -> None:
        await self.ending.begin(lease.lease_id, stop)
        self.ending.instance_gone(lease)


def _why_gone(instance: Instance | None) -> Stop:
    if instance is None:
        return Stop(reason="lost", message="EC2 no longer lists the instance")
    if instance.state_reason == SPOT_TERMINATION:
        return TAKEN_BACK
    if instance.state_reason == POWERED_OFF:
        message = "The instance powered itself off: no hub answered it for long, or somebody did it"
        return Stop(reason="lost", message=message)
    return Stop(reason="lost", message="The instance was terminated from outside the hub")

"""Moves servers to another instance: at a spot notice, before a Capacity Block ends or AWS stops or
reboots the instance, and to other hardware.

The new instance is bought first. Once it has claimed the successor, or when an interruption is
near, the server is stopped; the successor gets home and notebook when that has released them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.sleep.continuation import LATEST_STOP, seconds_to_save
from ...wire import Market, Stop
from ..model.cloud.cloud import CloudError
from ..model.leases.lease import LIVE, Lease, LeaseState
from ..model.leases.successor import RECLAIMED as RECLAIMING
from ..offers.avoided_offer import NO_CAPACITY, is_confirmed_by_aws
from ..offers.offers import Offers
from ..state.continuations import is_continued_by
from ..state.state import RECLAIMED, State

WITHDRAWN: Final = Stop(reason="hub", message="AWS no longer reclaims the machine")

MOVES: Final = Stop(reason="user", message="It continues on another machine", sleep="hardware")


@dataclass(slots=True)
class Continuation:
    """Begins successors at notices, and stops the servers that they continue."""

    state: State
    offers: Offers
    _sold_out: set[str] = field(default_factory=set)
    """Ids of interrupted leases whose offer this process has marked."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: a change that cannot be stored yet holds nevertheless."""
        leases = self.state.leases
        for lease in list(leases.open(LeaseState.READY)):
            if (until := self._reclaimed_at(lease)) is not None:
                self._mark_sold_out(lease)
                await self._follow_notice(lease, until, now)
            elif self._leaves_in_time(lease, now):
                await self._leave_in_time(lease, now)
        for lease in list(leases.open(*LIVE)):
            if lease.continues:
                await self._follow(lease, now)
        held = {x for lease in leases.in_memory() for x in (lease.lease_id, lease.continues)}
        self._sold_out &= held
        self.state.continuations.announce()

    def _reclaimed_at(self, lease: Lease) -> datetime | None:
        """When EC2 reclaims the instance of a ready lease whose server is to continue; else None.

        Whoever pretends that on their on-demand instance is not believed.
        """
        segment = lease.segments[-1] if lease.segments else None
        if segment is None or segment.market is not Market.SPOT:
            return None
        if lease.sleep.after_interruption == "stop":
            return None
        return self.state.leases.contact(lease.lease_id).interruption_at

    def _leaves_in_time(self, lease: Lease, now: datetime) -> bool:
        instance = self.state.instances.instance_of(lease)
        return self.state.departures.is_leaving(instance, now)

    async def _leave_in_time(self, lease: Lease, now: datetime) -> None:
        """EC2 gives an instance of a Capacity Block no notice, and one with a scheduled event none
        when it begins: the hub knows when it ends."""
        departures, instance = self.state.departures, self.state.instances.instance_of(lease)
        left_at = departures.left_at(instance)
        has_next = self._has_next_instance(lease, departures.story_of(instance))
        if has_next or left_at is None or now >= left_at:
            stop, until = departures.stop_of(instance), departures.reclaimed_at(instance)
            await self._end_reclaimed(lease, stop, until, now)

    async def _follow_notice(self, lease: Lease, until: datetime, now: datetime) -> None:
        if self._has_next_instance(lease, RECLAIMING) or until - now <= LATEST_STOP:
            await self._end_reclaimed(lease, RECLAIMED, until, now)

    def _has_next_instance(self, lease: Lease, story: str) -> bool:
        """Whether the successor of a lease whose instance is reclaimed has an instance. The
        successor is begun if there is none yet."""
        before = self.state.leases.successor(lease.lease_id)
        found = self.state.continuations.begin_at_notice(lease, story)
        if found is not None and (before is None or before.lease_id != found.lease_id):
            self.state.wake()  # this may be between two passes, and a pass buys its instance
        return found is not None and found.instance_id is not None

    async def _end_reclaimed(
        self, lease: Lease, stop: Stop, until: datetime | None, now: datetime
    ) -> None:
        seconds = seconds_to_save(lease.sleep.save_seconds, until, now)
        # 0 in a stop means as long as the configuration allows.
        sleep = "interruption" if seconds else None
        update = {"sleep": sleep, "save_seconds": seconds}
        await self.state.end(lease.lease_id, stop.model_copy(update=update))

    async def _follow(self, found: Lease, now: datetime) -> None:
        """See to one successor, whatever has happened meanwhile to what it continues."""
        state = self.state
        previous = state.leases.remembered(found.continues)
        if previous is None:
            return
        if previous.state is LeaseState.READY:
            if found.taken_over.trigger == "interruption" and self._is_withdrawn(previous, now):
                # An agent may report what AWS has never announced.
                await state.end(found.lease_id, WITHDRAWN, by_user=True)
            if found.taken_over.trigger == "hardware" and found.instance_id is not None:
                seconds = previous.sleep.save_seconds
                stop = MOVES.model_copy(update={"save_seconds": seconds})
                await state.end(previous.lease_id, stop)
        elif found.state is not LeaseState.READY and not is_continued_by(previous, found):
            # A crash came before that was stored.
            await state.end(found.lease_id, previous.stop or Stop(reason="hub"))
        elif is_continued_by(previous, found):
            state.continuations.complete_hand_over(previous, found)
        if previous.stop is not None and previous.stop.reason == RECLAIMED.reason:
            self._mark_sold_out(previous)
        if found.state is LeaseState.STARTING and state.leases.has_released(previous.lease_id):
            state.claims.wake(found.instance_id or "")
            state.lease_assigned.set()

    def _is_withdrawn(self, previous: Lease, now: datetime) -> bool:
        """Whether its instance is no longer reclaimed. A process that has not read instances,
        Capacity Blocks and scheduled events yet keeps the successor: agents report neither."""
        contact = self.state.leases.contact(previous.lease_id)
        instance = self.state.instances.instance_of(previous)
        if instance is None or not contact.heartbeats or contact.interruption_at is not None:
            return False
        departures = self.state.departures
        return departures.are_known(instance) and not departures.is_leaving(instance, now)

    def _mark_sold_out(self, lease: Lease) -> None:
        """EC2 needs the capacity that it reclaims: all buy elsewhere, if AWS itself says so. The
        word of an agent counts for its own server: see `avoided_by`."""
        instance = self.state.instances.instance_of(lease)
        if instance is None or instance.in_block or lease.lease_id in self._sold_out:
            return
        if not is_confirmed_by_aws(self.state, lease):
            return
        self._sold_out.add(lease.lease_id)
        said = CloudError(NO_CAPACITY, "EC2 has reclaimed an instance", retryable=False)
        self.offers.learn_of_start(instance, said)

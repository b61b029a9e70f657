"""The account of instances that have ended: what they cost that no lease has paid."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import GONE, Instance
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .closed_segments import MAX_WITHOUT_HUB, UNMEASURED
from .inventory import is_ours
from .overhead import Overhead

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EndedInstances:
    """Stores overhead once more by what EC2 says of the end, whatever ended the instance: EC2, its
    agent, the hub, or an earlier process that was killed meanwhile.

    A spot instance that EC2 interrupts in its first hour is free, and so is its overhead, which may
    have been stored before.
    """

    state: State
    cloud: Cloud
    overhead: Overhead
    tasks: TaskGroup
    _listing: int = 0
    """Number of the listing that was looked at last."""
    _closed: set[str] = field(default_factory=set)
    """Ids of listed instances whose account was closed by this process."""
    _refunded: set[str] = field(default_factory=set)
    """Ids of the instances whose overhead was taken back."""
    _is_pricing: bool = False
    _has_searched: bool = False
    """Whether accounts that an earlier process has left open were searched."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the store is written in the background."""
        if not self._is_pricing and self.overhead.unpriced.is_due():
            self._is_pricing = True
            self.tasks.spawn(self._price_again(), "prices of overhead")
        instances = self.state.instances
        if not self._has_searched and not self.state.is_in_recovery_grace():
            self._has_searched = True
            self.tasks.spawn(self._close_left(), "what an earlier process has left")
        if self._listing == instances.listings:
            return
        self._listing = instances.listings
        self._closed &= instances.listed.keys()
        self._refunded &= instances.listed.keys()
        for instance in instances.listed.values():
            end = instances.end_of(instance)
            if end is not None and end.is_free and end.instance_id not in self._refunded:
                self._refunded.add(end.instance_id)
                self.tasks.spawn(self.overhead.refund(end), f"refund {end.instance_id}")
        ended = [each for each in instances.listed.values() if self._is_to_be_closed(each)]
        if ended:
            self._closed |= {each.instance_id for each in ended}
            self.tasks.spawn(self.overhead.of_unleased(ended), f"accounts of {len(ended)}")

    def _is_to_be_closed(self, instance: Instance) -> bool:
        """A lease closes its own account, and `Retention` that of what is retained."""
        state, instance_id = self.state, instance.instance_id
        return (
            instance.state in GONE
            and instance_id not in self._closed
            and state.leases.of_instance(instance_id) is None
            and not state.retained.holds(instance_id)
            and is_ours(state, instance)
        )

    async def _price_again(self) -> None:
        try:
            await self.overhead.price_again()
        finally:
            self._is_pricing = False

    async def _close_left(self) -> None:
        """Close the accounts of places of the pool that an earlier process has left open: of those
        that a lease has taken, and of those that no listing shows.

        Raises `StoreError`; then the next process does it.
        """
        ledger, now = self.overhead.store.ledger, self.state.clock.now()
        for (instance_id, key), segments in (await ledger.running_overhead()).items():
            end = await ledger.leased_since(instance_id)
            is_here = instance_id in self.state.instances.listed
            if end is None and (is_here or self.state.retained.holds(instance_id)):
                continue
            end = end or await self._ended_at(instance_id, key, segments[0].start, now)
            await self.overhead.of_left_place(key, segments, min(end, now))

    async def _ended_at(
        self, instance_id: str, key: str, start: datetime, now: datetime
    ) -> datetime:
        """Return the end of one that EC2 no longer lists, as it does after an hour: its metrics say
        until when it ran."""
        try:
            ran = await self.cloud.ran_until([instance_id], start, now)
        except CloudError as error:
            sums = await self.overhead.store.ledger.overhead_costs(instance_id, key)
            counted = timedelta(microseconds=sum(each.microseconds for each in sums))
            end = start + counted + MAX_WITHOUT_HUB
            log.error(
                "When %s of the pool ended is not known, so it is charged until %s at most. "
                "CloudWatch: %s",
                instance_id,
                end,
                error,
            )
            return end
        return ran.get(instance_id, start + UNMEASURED)

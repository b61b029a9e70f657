"""The account of instances that have ended: what they cost that no lease has paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ..model.cloud.instance import GONE, Instance
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .inventory import is_ours
from .overhead import Overhead


@dataclass(slots=True)
class EndedInstances:
    """Stores overhead once more by what EC2 says of the end, whatever ended the instance: EC2, its
    agent, the hub, or an earlier process that was killed meanwhile.

    A spot instance that EC2 interrupts in its first hour is free, and so is its overhead, which may
    have been stored before.
    """

    state: State
    overhead: Overhead
    tasks: TaskGroup
    _listing: int = 0
    """Number of the listing that was looked at last."""
    _closed: set[str] = field(default_factory=set)
    """Ids of listed instances whose account was closed by this process."""
    _refunded: set[str] = field(default_factory=set)
    """Those whose overhead was taken back."""
    _is_pricing: bool = False

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the store is written in the background."""
        if not self._is_pricing and self.overhead.to_price_again():
            self._is_pricing = True
            self.tasks.spawn(self._price_again(), "prices of overhead")
        instances = self.state.instances
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

"""A spot instance that EC2 interrupts in its first hour is free, and so is its overhead."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ..runtime.task_group import TaskGroup
from ..state.state import State
from .overhead import Overhead


@dataclass(slots=True)
class FreeFirstHour:
    """Takes back overhead that was stored before EC2 interrupted its instance.

    What is stored after that is free from the beginning: see `core.ledger.instance_end`.
    """

    state: State
    overhead: Overhead
    tasks: TaskGroup
    _listing: int = 0
    """Number of the listing that was looked at last."""
    _refunded: set[str] = field(default_factory=set)
    """Ids of listed instances whose overhead was taken back by this process."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the store is written in the background."""
        instances = self.state.instances
        if self._listing == instances.listings:
            return
        self._listing = instances.listings
        self._refunded &= instances.listed.keys()
        for instance in instances.listed.values():
            end = instances.end_of(instance)
            if end is not None and end.is_free and end.instance_id not in self._refunded:
                self._refunded.add(end.instance_id)
                self.tasks.spawn(self.overhead.refund(end), f"refund {end.instance_id}")

"""What retained instances cost while they wait, in the sums of the hub before they end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...core.instances.retention_rules import Kept
from ..instances.demand import RUNNING, taker
from ..instances.overhead import Overhead
from ..model.cloud import Instance
from ..runtime.task_group import TaskGroup
from ..state.state import State

INTERVAL: Final = 300.0
"""Seconds awake between two times that all are stored: one write each."""


@dataclass(slots=True)
class RunningCosts:
    """Stores the overhead of what runs for nobody, under the key that its end will replace.

    Only retained instances are in it. One that no lease has had yet boots for a lease, which pays
    for it from its launch, or is surplus, and each try to terminate it stores its cost.
    """

    state: State
    overhead: Overhead
    tasks: TaskGroup
    _stored_at: float | None = None
    """Uptime in seconds."""
    _is_storing: bool = False

    async def reconcile(self, now: datetime) -> None:
        """Never raises: it is stored in the background, one after the other."""
        uptime = self.state.clock.uptime()
        if self._stored_at is None:
            self._stored_at = uptime  # before, an earlier process has stored it
        if not self._is_storing and uptime - self._stored_at >= INTERVAL:
            self._stored_at, self._is_storing = uptime, True
            self.tasks.spawn(self._store(), "running overhead")

    async def _store(self) -> None:
        try:
            for kept in self.state.retained.all():
                await self._store_one(kept.instance_id)
        finally:
            self._is_storing = False

    async def _store_one(self, instance_id: str) -> None:
        """As it is now: a lease may have got it while others were stored."""
        kept = self.state.retained.get(instance_id)
        instance = self.state.instances.listed.get(instance_id)
        if kept is None or instance is None or instance.state not in RUNNING:
            return
        if self.state.leases.of_instance(instance_id) or taker(self.state, kept):
            return  # a lease pays, or will from its request on
        start = unpaid_since(kept, instance)
        if start is not None:
            await self.overhead.of_retained(kept, instance, start)


def unpaid_since(kept: Kept, instance: Instance) -> datetime | None:
    """Since when no lease has paid for it; None for a stopped one, which costs nothing."""
    if kept.then == "linger":
        return kept.kept_at
    return max(kept.kept_at, instance.launched_at) if instance.state in RUNNING else None

"""What retained instances cost while they wait, in the sums of the hub before they end."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ...core.instances.retention_rules import Kept
from ..instances.demand import RUNNING, taker
from ..instances.overhead import Overhead
from ..model.cloud.instance import Instance
from ..runtime.task_group import TaskGroup
from ..state.state import State

INTERVAL: Final = 300.0
"""Seconds awake between two times that all that run are stored: one write each."""

DISK_INTERVAL: Final = 3600.0
"""The same of the disks of stopped ones, which cost little and are kept for days."""


@dataclass(slots=True)
class RunningCosts:
    """Stores the overhead of what runs for nobody, and of the disks of what is stopped, under the
    key that its end will replace.

    Only retained instances and those of the warm pool are in it. Any other that no lease has had
    yet boots for a lease, which pays for it from its launch, or is surplus, and each try to
    terminate it stores its cost.

    What fills a place of the pool is stored as soon as it does, so that a hub that is killed leaves
    the next one a record of it, and of why it ran.
    """

    state: State
    overhead: Overhead
    tasks: TaskGroup
    _stored_at: float | None = None
    """Uptime in seconds."""
    _disks_stored_at: float | None = None
    _is_storing: bool = False
    _places: Set[str] = frozenset()
    """Ids of the instances that filled places of the pool when they were stored last."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: it is stored in the background, one after the other."""
        uptime = self.state.clock.uptime()
        if self._stored_at is None:
            self._stored_at = uptime  # before, an earlier process has stored it
        if self._disks_stored_at is None:
            self._disks_stored_at = uptime
        if self._is_storing:
            return
        if uptime - self._stored_at >= INTERVAL:
            self._stored_at, self._is_storing = uptime, True
            with_disks = uptime - self._disks_stored_at >= DISK_INTERVAL
            if with_disks:
                self._disks_stored_at = uptime
            self.tasks.spawn(self._store(with_disks), "running overhead")
        elif new := [each for each in self._in_places() if each not in self._places]:
            self._is_storing = True
            self.tasks.spawn(self._store_new(new), "new places of the pool")

    async def _store(self, with_disks: bool) -> None:
        try:
            for kept in self.state.retained.all():
                await self._store_one(kept.instance_id)
                if with_disks:
                    await self._store_disks(kept.instance_id)
            await self._store_places(self._in_places())
        finally:
            self._is_storing = False

    async def _store_new(self, instance_ids: Sequence[str]) -> None:
        try:
            await self._store_places(instance_ids)
        finally:
            self._is_storing = False

    def _in_places(self) -> list[str]:
        """Without those that are retained."""
        in_places = (each.instance_id for each in self.state.stock.in_places)
        return [each for each in in_places if not self.state.retained.holds(each)]

    async def _store_places(self, instance_ids: Sequence[str]) -> None:
        for instance_id in instance_ids:
            await self._store_place(instance_id)
        self._places = (self._places | {*instance_ids}) & {*self._in_places()}

    async def _store_one(self, instance_id: str) -> None:
        """As it is now: a lease may have got it while others were stored."""
        kept = self.state.retained.get(instance_id)
        instance = self.state.instances.listed.get(instance_id)
        if kept is None or instance is None or instance.state not in RUNNING:
            return
        if self.state.leases.of_instance(instance_id) or taker(self.state, kept):
            return  # a lease pays, or will from its request on
        if kept.is_of_pool and self._boots_for_lease(kept):
            return
        start = unpaid_since(kept, instance)
        if start is not None:
            await self.overhead.of_retained(kept, instance, start)

    def _boots_for_lease(self, kept: Kept) -> bool:
        """Whether one of the pool was started again, and fills no place: some lease will pay."""
        in_places = {each.instance_id for each in self.state.stock.in_places}
        return kept.asked_at is not None and kept.instance_id not in in_places

    async def _store_place(self, instance_id: str) -> None:
        """As it is now: a start may have taken it while others were stored, and pays for it."""
        instance = self.state.instances.listed.get(instance_id)
        if instance is None or instance.state not in RUNNING:
            return
        if self.state.leases.of_instance(instance_id) or instance_id in self.state.leases.served:
            return
        if any(each.instance_id == instance_id for each in self.state.stock.in_places):
            await self.overhead.of_place(instance, runs_on=True)

    async def _store_disks(self, instance_id: str) -> None:
        kept = self.state.retained.get(instance_id)
        instance = self.state.instances.listed.get(instance_id)
        if kept is None or instance is None or kept.then != "stop":
            return
        if self.state.leases.of_instance(instance_id):
            return
        # It may have been unknown when the lease ended, and may be again at the end.
        price = self.overhead.prices.segment(instance, kept.kept_at).disk_usd_per_month
        if price not in (None, kept.disk_usd_per_month):
            kept = replace(kept, disk_usd_per_month=price)
            await self.state.retained.save(kept)
        await self.overhead.of_disks(kept, instance)


def unpaid_since(kept: Kept, instance: Instance) -> datetime | None:
    """Since when no lease has paid for it; None for a stopped one, of which only disks cost."""
    if kept.is_ahead:
        return instance.launched_at
    if kept.then == "linger":
        return kept.kept_at
    return max(kept.kept_at, instance.launched_at) if instance.state in RUNNING else None

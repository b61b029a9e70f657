"""What each pass does first: tick the clock, verify the store, forget what is old, sum up."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from .model.leases.lease import ENDED_LATELY
from .runtime.cooperative_iteration import cooperatively
from .runtime.task_group import TaskGroup
from .state.state import State
from .store.store import Store

log = logging.getLogger(__name__)

ENDED_KEPT: Final = timedelta(minutes=10)
"""How long ended leases stay in memory: a late heartbeat is answered 410 instead of 404."""


@dataclass(slots=True)
class ClockUpkeep:
    """Ticks the clock, and adjusts wall-clock instants in memory when the clock was set."""

    state: State
    tasks: TaskGroup

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        set_by = self.state.clock.tick()
        if not set_by:
            return
        log.warning("The hub's clock was set by %.0f s", set_by.total_seconds())
        self.state.leases.clock_was_set(set_by)
        self.state.runs.clock_was_set(set_by)
        if self.state.retained.clock_was_set(set_by):
            self.tasks.spawn(self.state.retained.save_all(), "times of what is kept")


@dataclass(slots=True)
class StoreUpkeep:
    """Verifies that the store is held, retries late writes, forgets what is old, and sums up what
    has changed."""

    state: State
    store: Store
    tasks: TaskGroup

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError` where another hub may be at work here: the pass ends."""
        state = self.state
        await self.store.hold()
        await state.sleeping.wake(state.leases.open())
        await state.sleeping.expire(now)
        await self.store.write_behind.retry()
        state.spending.forget_old(state.leases)
        await self._forget_ended(now - ENDED_KEPT)
        await state.spending.count_leases(state.leases)
        # What no listing shows and no lease holds: memory must not grow while the hub runs.
        listed = state.instances.listed
        leased = {lease.instance_id for lease in state.leases.open() if lease.instance_id}
        state.claims.forget_gone(listed.keys() | leased)
        state.launches.forget_old(now)
        state.instances.forget_gone()

    async def _forget_ended(self, before: datetime) -> None:
        leases = self.state.leases
        async for lease in cooperatively(leases.ended_before(before)):
            if leases.get(lease.lease_id) is lease:  # not changed meanwhile
                # Nothing is awaited in between: each lease is in one of the sums at any moment.
                self.state.session_costs.forget(lease)
                leases.forget(lease)
                self.state.spending.forgotten(lease)
        leases.forget_last_ended(before - ENDED_LATELY)

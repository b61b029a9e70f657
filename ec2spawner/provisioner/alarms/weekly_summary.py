"""Sends the weekly summary when it is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...core.alarms.summary import BY, weekly_summary
from ...core.alarms.weekly import LATE, Week
from ...core.ledger.cost_rows import CostSum, merge_sums, sum_rows
from ..model.lease_costs import costs_of
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.store import Store
from .outbox import Outbox

ATTEMPTS: Final = 5
"""Readings of a week, until no lease ends meanwhile: one that does would count twice."""


@dataclass(slots=True)
class WeeklySummary:
    """Adds up what the ledger has of a week, and what open leases have cost in it."""

    state: State
    store: Store
    outbox: Outbox
    tasks: TaskGroup
    _sent: datetime | None = None
    """The last one that was due, once it is in the outbox."""
    _is_writing: bool = False

    async def reconcile(self, now: datetime) -> None:
        """Begin to write one if it is due. Never raises."""
        schedule = self.outbox.rules.summary
        if schedule is None or self._is_writing or not self.outbox.destinations:
            return
        due = schedule.latest_due(now, self.state.settings.time_zone)
        if due == self._sent or now - due > LATE:
            return
        self._is_writing = True
        self.tasks.spawn(self._write(due, now), "weekly summary")

    async def _write(self, due: datetime, now: datetime) -> None:
        try:
            week = Week.before(due, self.state.settings.time_zone)
            costs, before = await self._costs(week, now), await self._costs(week.previous, now)
            await self.outbox.add([weekly_summary(week, costs, before, now)])
            self._sent = due
        finally:
            self._is_writing = False

    async def _costs(self, week: Week, now: datetime) -> Sequence[CostSum]:
        """By payer, user and purpose. Raises `StoreError`."""
        costs: Sequence[CostSum] = ()
        for _ in range(ATTEMPTS):
            leases = {lease.lease_id: lease for lease in self.state.leases.open()}
            ended = await self.store.costs(week.first, week.last, BY)
            rows = [
                row
                for lease in leases.values()
                for row in costs_of(lease, now, self.state.settings.time_zone)
                if week.first <= row.day <= week.last
            ]
            costs = merge_sums(ended, sum_rows(rows, BY))
            if leases.keys() <= {lease.lease_id for lease in self.state.leases.open()}:
                break
        return costs

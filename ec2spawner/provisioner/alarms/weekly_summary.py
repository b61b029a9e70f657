"""Sends the weekly summary when it is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.alarms.summary import BY, weekly_summary
from ...core.alarms.weekly import LATE, Week
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..usage import Usage
from .outbox import Outbox


@dataclass(slots=True)
class WeeklySummary:
    """Compares what a week has cost with the week before."""

    state: State
    usage: Usage
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
            costs = await self.usage.costs(week.first, week.last, BY)
            before = await self.usage.costs(week.previous.first, week.previous.last, BY)
            await self.outbox.add([weekly_summary(week, costs, before, now)])
            self._sent = due
        finally:
            self._is_writing = False

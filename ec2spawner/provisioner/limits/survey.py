"""How all limits stand, judged for all pages that show it together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..offers.market import MarketData
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .rates import HubRate, Rates
from .reaches import Reach, Reaches, limited_scopes

MAX_AGE: Final = 15.0
"""Seconds for which a survey is shown: a page polls every 10 s, and a survey goes over all leases
and all users who have spent something."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All limits as they stood at one moment."""

    at: datetime
    reaches: Mapping[str, Sequence[Reach]]
    """By scope with limits, all of them."""
    hub_rate: HubRate


@dataclass(slots=True)
class LimitSurveys:
    """Makes a survey when one is wanted and the last one is too old."""

    state: State
    market: MarketData
    tasks: TaskGroup
    _latest: asyncio.Task[Survey] | None = field(default=None, init=False)
    """In progress or done."""
    _begun_at: float = field(default=0.0, init=False)
    """When that began, in monotonic seconds."""

    async def latest(self) -> Survey:
        """A survey that was begun within `MAX_AGE`, or longer ago if it is still in progress.

        All who want it at once share one; a caller that is cancelled does not cancel it for the
        others.
        """
        if self._latest is None or self._is_over(self._latest):
            clock = self.state.clock
            self._begun_at = clock.monotonic()
            self._latest = self.tasks.start(self._survey(clock.now()), "limit survey")
        return await asyncio.shield(self._latest)

    def _is_over(self, survey: asyncio.Task[Survey]) -> bool:
        if not survey.done():
            return False
        has_failed = survey.cancelled() or survey.exception() is not None
        return has_failed or self.state.clock.monotonic() - self._begun_at >= MAX_AGE

    async def _survey(self, now: datetime) -> Survey:
        reaches, scopes = Reaches(self.state, self.market), limited_scopes(self.state)
        running = await reaches.running(scopes, now)
        return Survey(
            at=now,
            reaches=await reaches.all_of(scopes, running, now),
            hub_rate=await Rates(self.state, self.market).of_hub(now),
        )

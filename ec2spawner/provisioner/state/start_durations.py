"""How long starts usually take, by the store: for pages, which do not wait for a slow store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ...wire import Step
from ..runtime.task_group import TaskGroup
from ..store.store import Store, StoreError

log = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Seconds a page waits for the store."""


@dataclass(slots=True)
class StartDurations:
    """Usual durations of starts in seconds, read from the store in the background."""

    store: Store
    tasks: TaskGroup
    _last: dict[str, Mapping[Step, float]] = field(default_factory=dict)
    """By profile: as read from the store last."""
    _readings: dict[str, asyncio.Event] = field(default_factory=dict)
    """By profile: set when the reading in progress is done. Concurrent pages share it, so that a
    slow store is not read for each page."""

    async def of_steps(self, profile: str) -> Mapping[Step, float]:
        """Median seconds of each step over the last starts of a profile; empty when unknown."""
        done = self._readings.get(profile)
        if done is None:
            done = self._readings[profile] = asyncio.Event()
            self.tasks.spawn(self._read(profile, done), f"usual durations of {profile}")
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                await done.wait()
        return self._last.get(profile, {})

    async def _read(self, profile: str, done: asyncio.Event) -> None:
        try:
            self._last[profile] = await self.store.start_durations(profile)
        except StoreError as error:
            log.warning("Usual durations are as of earlier: %s", error)
        finally:
            del self._readings[profile]
            done.set()

    async def of_starts(self, profiles: Iterable[str]) -> Mapping[str, float]:
        """Seconds of a whole start of each profile, where that is known."""
        wanted = list(profiles)
        usual = await asyncio.gather(*map(self.of_steps, wanted))
        return {
            profile: sum(steps.values())
            for profile, steps in zip(wanted, usual, strict=True)
            if steps
        }

"""How long starts usually take, as the store knows it: for pages, which wait for no slow store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..wire import Step
from .store import Store, StoreError

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds a page waits for the store."""


@dataclass(slots=True)
class UsualDurations:
    store: Store
    _last: dict[str, Mapping[Step, float]] = field(default_factory=dict)
    """By profile: what the store said last."""

    async def of_steps(self, profile: str) -> Mapping[Step, float]:
        """Median seconds of each step over the last starts of a profile; empty when unknown."""
        try:
            async with asyncio.timeout(PATIENCE):
                self._last[profile] = await self.store.usual_durations(profile)
        except (StoreError, TimeoutError) as error:
            log.warning("Usual durations are as of earlier: %s", error or "the store is slow")
        return self._last.get(profile, {})

    async def of_starts(self, profiles: Iterable[str]) -> Mapping[str, float]:
        """Seconds of a whole start of each profile, where that is known."""
        wanted = list(profiles)
        usual = await asyncio.gather(*map(self.of_steps, wanted))
        return {
            profile: sum(steps.values())
            for profile, steps in zip(wanted, usual, strict=True)
            if steps
        }

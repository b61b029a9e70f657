"""The starts of the last weeks, by which the pool is planned, read from the store."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...core.pool.forecast import WEEKS
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.store import Store, StoreError

log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two readings: starts that are not ready yet are known from memory."""


@dataclass(slots=True)
class StartHistory:
    """Reads them in the background, while the pool has rules."""

    state: State
    store: Store
    tasks: TaskGroup
    _read_at: float | None = None
    """Uptime in seconds."""
    _is_reading: bool = False

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        uptime = self.state.clock.uptime()
        profiles = {each.profile for each in self.state.settings.pool.rules}
        profiles |= {each.profile for each in self.state.pool.overrides}
        is_due = self._read_at is None or uptime - self._read_at >= INTERVAL
        if profiles and is_due and not self._is_reading:
            self._read_at, self._is_reading = uptime, True
            self.tasks.spawn(self._read(profiles, now), "starts of the last weeks")

    async def _read(self, profiles: set[str], now: datetime) -> None:
        pool = self.state.pool
        try:
            pool.starts = await self.store.starts_since(profiles, now - timedelta(weeks=WEEKS))
            if pool.known_since is None:
                pool.known_since = await self.store.first_start()
        except StoreError as error:
            log.warning("The pool is planned by starts as of earlier: %s", error)
        finally:
            self._is_reading = False

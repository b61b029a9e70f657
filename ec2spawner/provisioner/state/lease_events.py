"""What was reported of leases and is not yet read: a bounded queue between a pass and a reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from ..model.leases.events import LeaseEvent

MAX_WAITING: Final = 10_000
"""Events: those of a thousand starts and stops. A reader that is slower loses the oldest."""


class LeaseEvents:
    """Events in the order of their reports, for one reader."""

    def __init__(self) -> None:
        self._waiting: deque[LeaseEvent] = deque(maxlen=MAX_WAITING)
        self._added = asyncio.Event()
        self._dropped = 0

    def add(self, event: LeaseEvent) -> None:
        """Never waits; drops the oldest event where nobody has read `MAX_WAITING` of them."""
        self._dropped += len(self._waiting) == MAX_WAITING
        self._waiting.append(event)
        self._added.set()

    async def next_batch(self) -> tuple[list[LeaseEvent], int]:
        """All events since the last batch, once there are some, and how many were dropped."""
        await self._added.wait()
        self._added.clear()
        batch, dropped = list(self._waiting), self._dropped
        self._waiting.clear()
        self._dropped = 0
        return batch, dropped

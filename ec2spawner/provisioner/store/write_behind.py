"""A queue of writes that are retried until the store accepts them.

For facts that have already happened, such as a response of EC2's or time that was paid for. The
caller continues, and each pass retries. An action that must not happen unless it is stored, such
as a launch, is not written through this queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable

from .database import StoreError

log = logging.getLogger(__name__)

Write = Callable[[], Awaitable[None]]


class WriteBehindQueue:
    def __init__(self) -> None:
        self._writes: dict[Hashable, Write] = {}
        """By subject: a newer write replaces an older one."""
        self._under_way: set[Write] = set()

    async def sooner_or_later(self, about: Hashable, write: Write) -> None:
        """Write now, or else with a later pass. Never raises `StoreError`: a failure is logged."""
        self._writes[about] = write
        try:
            await self._do(about, write)
        except StoreError as error:
            log.warning("%s is not stored yet: %s", about, error)

    async def again(self) -> None:
        """Try all of them once more, oldest first, up to the first that fails."""
        try:
            for about, write in list(self._writes.items()):
                # Whoever asked for it waits for that one: a pass does not.
                if write not in self._under_way:
                    await self._do(about, write)
        except StoreError as error:
            log.error("%d records are not stored yet: %s", len(self._writes), error)

    async def _do(self, about: Hashable, write: Write) -> None:
        self._under_way.add(write)
        try:
            await asyncio.shield(write())
        finally:
            self._under_way.discard(write)
        if self._writes.get(about) is write:
            del self._writes[about]

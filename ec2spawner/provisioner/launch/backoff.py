"""One pause for all launch calls while EC2 is busy."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_PAUSE = 15
"""Times the first pause: longer ones only keep people waiting, EC2's buckets refill in seconds."""


class Backoff:
    """A throttle that one call meets is met by no other: they all wait behind the same pause.

    While EC2 is busy one call at a time asks whether it still is. The first that is answered lets
    all others go.
    """

    def __init__(self, pause: float) -> None:
        """`pause` in seconds: before the first repetition at most; it doubles, with jitter."""
        self._pause = pause
        self._failures = 0
        self._until = 0.0
        """On the loop's clock."""
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncIterator[int]:
        """Make one call inside, once it is its turn; pass its number to `report`.

        Raises `TimeoutError` where its turn does not come by the `deadline`, on the loop's clock.
        """
        if not self._failures:
            yield self._failures
            return
        async with asyncio.timeout_at(deadline):
            await self._one_at_a_time.acquire()
        try:
            if self._failures:
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(self._until - asyncio.get_running_loop().time())
                yield self._failures
                return
        finally:
            self._one_at_a_time.release()
        yield self._failures

    def report(self, turn: int, *, busy: bool) -> None:
        """What the call made in that turn has shown of EC2: let others go, or wait longer.

        A call that began before the last refusal is no news. So calls that were made at once and
        are all refused count once.
        """
        if turn < self._failures:
            return
        self._failures = turn + 1 if busy else 0
        longest = self._pause * min(2**turn, LONGEST_PAUSE)
        self._until = asyncio.get_running_loop().time() + random.uniform(0, longest)

"""One back-off for all launch calls while EC2 is busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...core.backoff import Backoff

MAX_PAUSE_FACTOR = 15
"""Times the first pause. Longer pauses only keep users waiting: EC2's buckets refill in seconds."""


class SharedBackoff:
    """Makes all calls wait after one of them was throttled.

    While EC2 is busy, one call at a time finds out whether it still is. The first one that
    succeeds releases all others.
    """

    def __init__(self, pause: float) -> None:
        """`pause`: the longest first pause in seconds. Pauses double, with full jitter."""
        self._backoff = Backoff(pause, pause * MAX_PAUSE_FACTOR, jitter=1.0)
        self._failures = 0
        self._until = 0.0
        """End of the current pause, in seconds of the loop's clock."""
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncIterator[int]:
        """Wait until a call may be made, and make it inside. Pass the turn's number to `report`.

        Raises `TimeoutError` if the turn does not come by the `deadline`, on the loop's clock.
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
        """Release the other calls, or extend the pause, by what the call of that turn met.

        A call that began before the last failure is ignored: calls that were made at the same time
        and all failed count once.
        """
        if turn < self._failures:
            return
        self._failures = turn + 1 if busy else 0
        pause = self._backoff.pause(self._failures) if busy else 0.0
        self._until = asyncio.get_running_loop().time() + pause

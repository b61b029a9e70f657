"""Lets many starts proceed one after the other, with other requests in between."""

from __future__ import annotations

import asyncio


class LoopTurns:
    """Callers proceed one at a time, in their order, each in a turn of the event loop of its own.

    JupyterHub starts a server with 15 to 25 ms of database work in which it awaits nothing. Of a
    hundred starts at once, all that are due run in one turn of the loop: two seconds in which no
    other request is answered, `/hub/health` among them. With this, no turn has more than one start.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait until all earlier callers have proceeded, and for another turn of the loop.

        What the caller does until its next await is its turn. There is no timeout: each turn takes
        as long as one start's database work.
        """
        async with self._lock:
            await asyncio.sleep(0)

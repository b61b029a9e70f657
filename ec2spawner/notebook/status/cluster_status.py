"""The last status of this server's cluster, shared by all open pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from ...wire import NotebookReply

FRESH_SECONDS: Final = 2.0
"""Shorter than the interval at which a page asks while workers are starting."""


class ClusterStatusCache:
    """Asks once for all who want to know within `FRESH_SECONDS`, failures included."""

    def __init__(self, ask: Callable[[], Awaitable[NotebookReply]]) -> None:
        self._ask = ask
        self._reply: asyncio.Future[NotebookReply] | None = None
        self._answered_at = 0.0

    async def latest(self) -> NotebookReply:
        """The agent's reply. Raises as `ask`."""
        reply = self._reply
        if reply is None or (
            reply.done() and time.monotonic() - self._answered_at >= FRESH_SECONDS
        ):
            reply = self._reply = asyncio.ensure_future(self._ask())
            reply.add_done_callback(self._note)
        # Another page may wait for the same reply when this one is closed.
        return await asyncio.shield(reply)

    def forget(self) -> None:
        """The cluster was changed: ask anew."""
        self._reply = None

    def _note(self, reply: asyncio.Future[NotebookReply]) -> None:
        if reply is self._reply:
            self._answered_at = time.monotonic()
        if not reply.cancelled():
            reply.exception()  # also where no page waits any more

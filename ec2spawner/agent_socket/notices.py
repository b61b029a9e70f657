"""Learns from the instance's agent that EC2 reclaims the instance."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from . import MAX_LINE

log = logging.getLogger(__name__)

RECONNECT_SECONDS: Final = 5.0


async def watch_notices(path: str, on_notice: Callable[[float], Awaitable[None]]) -> None:
    """Call `on_notice` once with the seconds that are left, at the first notice.

    Runs until cancelled, and comes back after the agent has hung up.
    """
    while path:
        with contextlib.suppress(OSError, ValueError):
            if (at := await _first_notice(path)) is not None:
                left = (at - datetime.now(UTC)).total_seconds()
                log.info("AWS is reclaiming this instance in %.0f s", left)
                await on_notice(max(left, 1.0))
                return
        await asyncio.sleep(RECONNECT_SECONDS)


async def _first_notice(path: str) -> datetime | None:
    """When the instance is reclaimed, once that is announced; None if the agent hung up."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
    try:
        while line := await reader.readline():
            at = json.loads(line).get("interruption_at")
            if at:
                return datetime.fromisoformat(at)
        return None
    finally:
        writer.close()

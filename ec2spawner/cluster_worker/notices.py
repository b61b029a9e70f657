"""Hears from the instance's agent that EC2 reclaims the instance."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

log = logging.getLogger(__name__)

MAX_LINE: Final = 4 * 1024 * 1024
RECONNECT_SECONDS: Final = 5.0


async def watch_notices(path: str, drain: Callable[[float], Awaitable[None]]) -> None:
    """Call `drain` once with the seconds that are left, at the first notice. Runs until cancelled,
    and comes back after the agent has hung up."""
    while path:
        with contextlib.suppress(OSError, ValueError):
            if (at := await _first_notice(path)) is not None:
                left = (at - datetime.now(UTC)).total_seconds()
                log.info("AWS reclaims this instance in %.0f s: the node is drained", left)
                await drain(max(left, 1.0))
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

"""The end of a process whose children may have its output."""

from __future__ import annotations

import asyncio
from typing import Final

POLL_SECONDS: Final = 0.1


async def until_ended(process: asyncio.subprocess.Process) -> int:
    """The exit status of a process. Its `wait` also waits for children that have its output."""
    while process.returncode is None:
        await asyncio.sleep(POLL_SECONDS)
    return process.returncode

"""The end of a process whose children may have its output, or outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

import psutil

POLL_SECONDS: Final = 0.1


async def until_ended(process: asyncio.subprocess.Process) -> int:
    """The exit status of a process. Its `wait` also waits for children that have its output."""
    while process.returncode is None:
        await asyncio.sleep(POLL_SECONDS)
    return process.returncode


def processes_below(pid: int) -> list[psutil.Process]:
    """The descendants of a process; none if it has ended."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def processes_of_session(leader: int) -> list[psutil.Process]:
    """The leader of a session, whoever is in it still, and what they started. Blocks for a
    millisecond or so for each hundred processes of the instance."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader:
                for each in (process, *processes_below(process.pid)):
                    found[each.pid] = each
    return list(found.values())


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL to each that still runs."""
    for each in processes:
        with contextlib.suppress(psutil.Error):
            each.kill()

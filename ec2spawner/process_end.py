"""The end of a process whose children may have its output, or outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import psutil

POLL_SECONDS: Final = 0.1

KILL_POLL_SECONDS: Final = 0.02

MAX_KILL_SECONDS: Final = 2.0
"""A reclaimed instance has only so much time for its last report."""


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
    """The leader of a session, whoever is in it still, and what they started. Blocks for a few
    milliseconds for each hundred processes of the instance."""
    found: dict[int, psutil.Process] = {}
    children: defaultdict[int, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            children[process.ppid()].append(process)
            if os.getsid(process.pid) == leader:
                found[process.pid] = process
    parents = list(found)
    while parents:
        started = [each for each in children[parents.pop()] if each.pid not in found]
        found.update((each.pid, each) for each in started)
        parents += [each.pid for each in started]
    return list(found.values())


def kill_session(leader: int, below: Iterable[psutil.Process] = ()) -> None:
    """SIGKILL to the processes of a session, to what they start meanwhile, and to those `below`,
    which may have left it. Blocks until they have ended, or for about `MAX_KILL_SECONDS`: one that
    waits for a disk ends after that. A scan may take that long on a busy instance, so there is
    always one after the first SIGKILL."""
    until = time.monotonic() + MAX_KILL_SECONDS
    left = {*below, *processes_of_session(leader)}
    _kill(left)
    while left:
        time.sleep(KILL_POLL_SECONDS)
        left = {each for each in {*left, *processes_of_session(leader)} if _runs(each)}
        _kill(left)
        if time.monotonic() > until:
            return


def _kill(processes: Iterable[psutil.Process]) -> None:
    for each in processes:
        with contextlib.suppress(psutil.Error):
            each.kill()


def _runs(process: psutil.Process) -> bool:
    """A process that has ended may stay a zombie, where nobody asks for its exit status."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False

"""Browser tests of all workers take turns: each keeps a core busy, where most others wait."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PLACES = max(len(os.sched_getaffinity(0)), 2)
"""So many at once: with twice as many as there are cores some fail."""

PAUSE = 0.1
"""Seconds until a test that waits looks again: no call waits for any of several locks."""


@contextlib.contextmanager
def turn(folder: Path, places: int = PLACES) -> Iterator[None]:
    """Hold one of the places, of which each is a file in this folder.

    The kernel gives it back when the worker ends, however that ends.
    """
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"browser-{number}.lock").open("w"))
            for number in range(places)
        ]
        while not any(is_held(each) for each in files):
            time.sleep(PAUSE)
        yield


def is_held(file: IO[str]) -> bool:
    """Whether the lock could be taken."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False

"""Keeps the pauses of Python's garbage collector short while many servers run.

A full collection walks every object that may be part of a cycle, and nothing else runs meanwhile:
with a thousand servers, up to a second. Almost all of these objects live for hours. So CPython
makes no full collection by itself: it would come amid work, and walk all that this work has made.
One is made in a turn of the event loop of its own, and when it was long, what survived it is frozen
(`gc.freeze`): later ones do not walk it.

Collections of younger objects are no shorter by themselves. CPython makes one when there are 700
more objects than after the last. A hub replaces as many as it makes, such as what it knows of each
server at each heartbeat, so that count stands still while the young generation grows to a hundred
times as many objects. Therefore they are collected every second too.

Frozen objects are freed as usual once nothing refers to them. Frozen *cycles* are not, such as the
spawner of a server that has stopped since. Therefore everything is unfrozen and collected once a
day, in a quiet moment. That is one pause as long as before, which the log reports.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from ....provisioner.model.leases.lease import LeaseState
from ....provisioner.runtime.supervise import Supervised

LONG_COLLECTION: Final = 0.010
"""Seconds of CPU time. A lower limit would freeze more objects that live for a few seconds only."""

DUE_AFTER: Final = 3
"""Collections of the middle generation after which a full one is due. After ten, as in CPython,
full ones took some 30 ms of CPU time with a thousand servers."""

NEVER: Final = 2**31 - 1
"""The largest threshold of a generation."""

TURN_INTERVAL: Final = 1.0
"""Seconds between two collections in turns of their own. With a thousand servers, one of the
younger generations took 7 ms of CPU time at most, and a full one 16 ms."""

FULL_INTERVAL: Final = 24 * 3600.0
"""Seconds between two collections of everything."""

QUIET: Final = 600.0
"""Seconds without starts and stops before everything is collected. A hub with many users has them
at night."""

LATEST: Final = 48 * 3600.0
"""Seconds after which one moment without starts and stops is enough."""

CHECK_INTERVAL: Final = 60.0
"""Seconds between two checks whether everything is to be collected."""

log = logging.getLogger(__name__)


class GCPauses:
    """Collects every second, freezes what survives a long full collection, and collects everything
    once a day.

    While a hub started 400 servers, its longest full collection took 320 ms of CPU time without
    this. With a thousand servers, one of the young generation took up to 16 ms and one of the
    middle generation 70 ms, as long as these were left to CPython. Collecting everything took 260
    to 420 ms. CPython 3.11 to 3.13 behave alike.
    """

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        """`is_quiet` returns whether no server starts or stops now."""
        self._is_quiet = is_quiet

    @contextmanager
    def kept_short(self) -> Iterator[None]:
        """Freeze what lives now, and leave full collections to `run` until the end of the block."""
        young, middle, full = gc.get_threshold()
        gc.freeze()
        gc.set_threshold(young, middle, NEVER)
        try:
            yield
        finally:
            gc.set_threshold(young, middle, full)

    async def run(self) -> None:
        """Collect every second, and everything once a day, until cancelled."""
        supervised = Supervised("Garbage collection")
        clock = asyncio.get_running_loop().time
        collected_at = busy_at = checked_at = clock()
        while True:
            await asyncio.sleep(TURN_INTERVAL)
            with supervised:
                collect()
                now = clock()
                if now - checked_at < CHECK_INTERVAL:
                    continue
                checked_at = now
                # Not asked all day: it reads all leases.
                if now - collected_at < FULL_INTERVAL - QUIET or not self._is_quiet():
                    busy_at = now
                elif is_due(now - collected_at, now - busy_at):
                    collect_everything()
                    collected_at = now


def collect() -> None:
    """Collect what is young; or everything that is not frozen, if that is due, and freeze what
    survives that if it was long."""
    if gc.get_count()[2] < DUE_AFTER:
        gc.collect(1)
        return
    began = time.thread_time()
    gc.collect()
    if time.thread_time() - began > LONG_COLLECTION:
        gc.freeze()


def collect_everything() -> None:
    """Unfreeze, collect and freeze again; nothing else runs meanwhile."""
    began = time.perf_counter()
    gc.unfreeze()
    found = gc.collect()
    gc.freeze()
    log.info(
        "Python's garbage collector freed %d objects in %.0f ms, as it does once a day",
        found,
        1000 * (time.perf_counter() - began),
    )


def is_due(since_last: float, quiet_for: float) -> bool:
    """Whether to collect everything in this quiet moment. Both in seconds."""
    return since_last >= (FULL_INTERVAL if quiet_for >= QUIET else LATEST)


def nothing_starts_or_stops(states: Collection[LeaseState]) -> bool:
    """Whether all open leases are those of running servers; given are the states they are in."""
    return all(state is LeaseState.READY for state in states)

"""Keeps the pauses of Python's garbage collector short while many servers run.

A full collection walks every object that may be part of a cycle, and nothing else runs meanwhile:
with a thousand servers, up to a second. Almost all of these objects live for hours. So when a full
collection was long, what survived it is frozen (`gc.freeze`): later ones do not walk it.

Frozen objects are freed as usual once nothing refers to them. Frozen *cycles* are not, such as the
spawner of a server that has stopped since. Therefore everything is unfrozen and collected once a
day, in a quiet moment. That is one pause as long as before, which the log reports.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ...provisioner.model.lease import LeaseState
from ...provisioner.runtime.supervise import Supervised

LONG_COLLECTION: Final = 0.010
"""Seconds of CPU time. Collections become longer gradually, so the longest takes little more. A
lower limit would freeze more objects that live for a few seconds only."""

FULL_INTERVAL: Final = 24 * 3600.0
"""Seconds between two collections of everything."""

QUIET: Final = 600.0
"""Seconds without starts and stops before everything is collected. A hub with many users has them
at night."""

LATEST: Final = 48 * 3600.0
"""Seconds after which one moment without starts and stops is enough."""

CHECK_INTERVAL: Final = 60.0
"""Seconds."""

log = logging.getLogger(__name__)


class GCPauses:
    """Freezes what survives a long collection, and collects everything once a day.

    While a hub started 400 servers, its longest full collection took 320 ms of CPU time without
    this, and 25 to 43 ms with it. Collecting everything took 260 to 420 ms. CPython 3.11 to 3.13
    behave alike.
    """

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        """`is_quiet` returns whether no server starts or stops now."""
        self._is_quiet = is_quiet
        self._began = 0.0
        self._is_freezing = False
        """A freeze is due or in progress; its own collection is no reason for another one."""

    @contextmanager
    def kept_short(self) -> Iterator[None]:
        """Freeze what lives now and, until the end of the block, what survives long collections."""
        loop = asyncio.get_running_loop()

        def collecting(phase: str, info: Mapping[str, Any]) -> None:
            # Called in whichever thread collects. Collections never overlap.
            if phase == "start":
                self._began = time.thread_time()
            elif (
                info["generation"] == 2
                and not self._is_freezing
                and time.thread_time() - self._began > LONG_COLLECTION
            ):
                self._is_freezing = True
                # Not here: a collection has no effect while another one is in progress.
                loop.call_soon_threadsafe(self._freeze)

        self._freeze()
        gc.callbacks.append(collecting)
        try:
            yield
        finally:
            gc.callbacks.remove(collecting)

    async def run(self) -> None:
        """Collect everything once a day, until cancelled."""
        supervised = Supervised("Garbage collection")
        clock = asyncio.get_running_loop().time
        collected_at = busy_at = clock()
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            with supervised:
                now = clock()
                # Not asked all day: it reads all leases.
                if now - collected_at < FULL_INTERVAL - QUIET or not self._is_quiet():
                    busy_at = now
                elif is_due(now - collected_at, now - busy_at):
                    self.collect_everything()
                    collected_at = now

    def collect_everything(self) -> None:
        """Unfreeze, collect and freeze again; nothing else runs meanwhile."""
        began = time.perf_counter()
        self._is_freezing = True
        gc.unfreeze()
        found = gc.collect()
        self._freeze()
        log.info(
            "Python's garbage collector freed %d objects in %.0f ms, as it does once a day",
            found,
            1000 * (time.perf_counter() - began),
        )

    def _freeze(self) -> None:
        """Exclude everything that lives from later collections."""
        self._is_freezing = True
        gc.freeze()
        # CPython postpones a full collection until a quarter of what survived the last one is new.
        # A last one without survivors makes the next one early, and therefore short.
        gc.collect()
        self._is_freezing = False


def is_due(since_last: float, quiet_for: float) -> bool:
    """Whether to collect everything in this quiet moment. Both in seconds."""
    return since_last >= (FULL_INTERVAL if quiet_for >= QUIET else LATEST)


def nothing_starts_or_stops(states: Collection[LeaseState]) -> bool:
    """Whether all open leases are those of running servers; given are the states they are in."""
    return all(state is LeaseState.READY for state in states)

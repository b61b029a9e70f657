"""A timeout for calls into the driver, which may never return."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

HANG_SECONDS: Final = 10.0
"""All copies of one GPU take under three seconds on the slowest one (8 lanes of PCIe 2). The
driver has answered and allocated by then, so no cold disk is in the way: only the GPU is."""


@contextlib.contextmanager
def watchdog(bark: Callable[[], None]) -> Iterator[None]:
    """Call `bark` once, from another thread, if the block takes longer than `HANG_SECONDS`."""
    timer = threading.Timer(HANG_SECONDS, bark)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

"""For calls that may never come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

HANG_SECONDS: Final = 10.0
"""All copies of one GPU take under three seconds on the slowest one (8 lanes of PCIe 2). The
driver has answered and allocated by then, so no cold disk is in the way: only the GPU is."""


class Watchdog:
    """Barks once, from a thread of its own, where its block takes longer than `HANG_SECONDS`."""

    def __init__(self, bark: Callable[[], None]) -> None:
        self._timer = threading.Timer(HANG_SECONDS, bark)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()

"""The clock of one provisioner: the wall clock, and the uptime of this hub's event loop.

The wall clock can be set, and a hub can be stopped, suspended or blocked. Neither makes an agent
silent: silence is measured in uptime, which counts only while the loop runs and begins at zero.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

MAX_GAP: Final = 15.0
"""Maximum seconds between two ticks while the loop runs: passes tick every 5 s, and wait for the
store or for EC2 if these are slow. A longer gap does not count as uptime."""

JUMP: Final = timedelta(seconds=5)
"""If wall and monotonic clock differ by more between two ticks, the wall clock was set."""


class Clock:
    """Wall time and uptime. `tick` it at least every `MAX_GAP` seconds."""

    def __init__(
        self, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = now
        """The wall clock, UTC."""
        self.monotonic = monotonic
        """Seconds since any moment; whatever the loop does, and wherever the wall clock is set."""
        self._stalled = 0.0
        self._ticked_at: float | None = None
        """On the loop's clock."""
        self._wall, self._steady = now(), monotonic()

    def uptime(self) -> float:
        """Seconds for which the event loop of this process has run."""
        return self.monotonic() - self._stalled

    def tick(self) -> timedelta:
        """Exclude time in which the loop did not run. Return by how much the wall clock was set."""
        loop_time = asyncio.get_running_loop().time()
        if self._ticked_at is not None:
            self._stalled += max(loop_time - self._ticked_at - MAX_GAP, 0.0)
        self._ticked_at = loop_time
        wall, steady = self.now(), self.monotonic()
        jump = (wall - self._wall) - timedelta(seconds=steady - self._steady)
        self._wall, self._steady = wall, steady
        return jump if abs(jump) > JUMP else timedelta()

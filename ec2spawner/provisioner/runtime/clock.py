"""The clock of one provisioner: the wall clock, and the time during which this hub could listen.

The wall clock can be set, and a hub can be stopped, suspended or blocked. Neither is the fault of
an instance: silence is measured in time in which the hub's loop ran, and a process begins at zero.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

LONGEST_GAP: Final = 15.0
"""Seconds between two ticks at most while the loop runs: passes tick every 5 s, and wait for a
store's answer or for EC2's where one is slow. What is longer was no listening."""

JUMP: Final = timedelta(seconds=5)
"""Between two ticks wall and monotonic clock differ by less, unless somebody set the wall clock."""


class Clock:
    """Wall time and uptime. `tick` it at least every `LONGEST_GAP` seconds."""

    def __init__(
        self, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = now
        """The wall clock, UTC."""
        self._monotonic = monotonic
        self._deaf = 0.0
        self._ticked_at: float | None = None
        """On the loop's clock."""
        self._wall, self._steady = now(), monotonic()

    def uptime(self) -> float:
        """Seconds that this process has listened."""
        return self._monotonic() - self._deaf

    def tick(self) -> timedelta:
        """Leave out a time in which the loop did not run. By how much the wall clock was set."""
        loop_time = asyncio.get_running_loop().time()
        if self._ticked_at is not None:
            self._deaf += max(loop_time - self._ticked_at - LONGEST_GAP, 0.0)
        self._ticked_at = loop_time
        wall, steady = self.now(), self._monotonic()
        jump = (wall - self._wall) - timedelta(seconds=steady - self._steady)
        self._wall, self._steady = wall, steady
        return jump if abs(jump) > JUMP else timedelta()

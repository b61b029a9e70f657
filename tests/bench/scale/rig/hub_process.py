"""The hub's process from outside: CPU, memory, and the turns of its loop, over one window."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from tests.bench.figures import percentile
from tests.bench.loop_monitor import WORTH_NOTING, Turn

COLLECTION_SECONDS = 1.5
"""For the hub to have collected its garbage."""


@dataclass(frozen=True, slots=True)
class Window:
    """What the hub's process did between two instants."""

    began: float
    """Seconds since the epoch."""
    seconds: float
    cpu_seconds: float
    """Of the process and of the children that it has waited for, such as `openssl`."""

    @property
    def ended(self) -> float:
        return self.began + self.seconds

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_seconds / self.seconds


class HubProcess:
    """One process; it must live while it is measured."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.pid = pid
        self.mark()

    def mark(self) -> None:
        """Begin a window."""
        self._began, self._cpu = time.time(), self._cpu_seconds()

    def window(self) -> Window:
        """What has happened since `mark`."""
        seconds = time.time() - self._began
        return Window(self._began, seconds, self._cpu_seconds() - self._cpu)

    async def memory_kb(self) -> float:
        """Memory that only this process uses (USS), in kB of 1000 bytes, without garbage."""
        self._process.send_signal(signal.SIGUSR2)
        await asyncio.sleep(COLLECTION_SECONDS)
        info = await asyncio.to_thread(self._process.memory_full_info)
        return float(info.uss) / 1000

    @property
    def open_files(self) -> int:
        """Descriptors that it has open."""
        return self._process.num_fds()

    def _cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)


def turn_percentile(turns: Sequence[Turn], window: Window, percent: float) -> float:
    """Milliseconds below which `percent` of the loop's turns lie, of those that are written down.

    The monitor leaves out turns below `WORTH_NOTING`: most of a loop's turns, so this is an upper
    bound of the percentile of all. Without any turn it is that bound.
    """
    inside = [turn.wall_ms for turn in turns if window.began <= turn.at <= window.ended]
    return percentile(inside, percent) if inside else 1000 * WORTH_NOTING

"""One thread that samples; all readers take what it found last."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psutil

from ..core.idle import WINDOW_MAX, Reading
from ..wire import Telemetry, TerminalState
from .gpus import GpuSource
from .processes import Processes
from .terminals import terminals

log = logging.getLogger(__name__)

KEPT = 2 * WINDOW_MAX
"""How far back readings are kept: `core.idle` averages over up to `WINDOW_MAX`."""

MIB = 2**20


class Sampler:
    """Samples the machine every `interval` seconds while it is started. Thread-safe to read."""

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        *,
        interval: float = 1.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._gpus = gpus
        self._processes = processes
        self._interval = interval
        self._now = now
        self._lock = threading.Lock()
        self._latest: Telemetry | None = None
        self._gpu: deque[Reading] = deque()
        self._cpu: deque[Reading] = deque()
        self._terminals: list[TerminalState] = []
        self._thread: threading.Thread | None = None
        self._stopping: threading.Event | None = None
        """Of the thread that samples now, if one does."""
        self._sampled_at = 0.0
        self._cpu_seconds = 0.0
        """Of the user's processes, at the last sample."""
        self._failure = ""

    @property
    def latest(self) -> Telemetry | None:
        """The last sample; None before the first."""
        with self._lock:
            return self._latest

    def readings(self) -> tuple[list[Reading], list[Reading]]:
        """(GPU, CPU of the user's processes), oldest first, the last two minutes."""
        with self._lock:
            return list(self._gpu), list(self._cpu)

    def terminals(self) -> list[TerminalState]:
        """The user's terminals, and what runs in their foreground."""
        with self._lock:
            return self._terminals

    def start(self) -> None:
        """Start to sample; started already is no error."""
        if self._stopping is None:
            self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stopping, self._thread), name="telemetry", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Stop to sample; waits for a sample that is under way, for `timeout` seconds at most."""
        stopping, self._stopping = self._stopping, None
        if stopping is not None and self._thread is not None:
            stopping.set()
            self._thread.join(timeout)

    def _run(self, stopping: threading.Event, before: threading.Thread | None) -> None:
        if before is not None:
            # It closes the GPUs when it ends: one thread at a time has them.
            before.join()
        psutil.cpu_percent()
        self._cpu_seconds = self._processes.look().cpu_seconds
        self._sampled_at = time.monotonic()
        wait = min(self._interval, 0.2)
        while not stopping.wait(wait):
            wait = self._interval
            try:
                self._sample()
                self._failure = ""
            except Exception as error:
                # A driver or a /proc that misbehaves shall not end the thread, nor fill the log.
                if repr(error) != self._failure:
                    log.exception("a sample failed; the next ones go on")
                self._failure = repr(error)
        self._gpus.close()
        with self._lock:
            self._terminals = []

    def _sample(self) -> None:
        look = self._processes.look()
        in_terminals = terminals(look.processes)
        with self._lock:
            self._terminals = in_terminals
        user_cpu = self._user_cpu_percent(look.cpu_seconds)
        gpus = self._gpus.sample(user_cpu)
        memory = psutil.virtual_memory()
        now = self._now()
        latest = Telemetry(
            at=now,
            gpu_source=self._gpus.kind,
            gpus=gpus,
            cpu_percent=min(max(psutil.cpu_percent(), 0.0), 100.0),
            memory_used_mib=(memory.total - memory.available) / MIB,
            memory_total_mib=memory.total / MIB,
        )
        uses = [gpu.use_percent for gpu in gpus if gpu.use_percent is not None]
        with self._lock:
            self._latest = latest
            _append(self._cpu, Reading(now, user_cpu), KEPT)
            if uses:
                _append(self._gpu, Reading(now, max(uses)), KEPT)

    def _user_cpu_percent(self, cpu_seconds: float) -> float:
        """Use since the last sample, in percent of one core, and of no more than there are."""
        now = time.monotonic()
        taken, elapsed = cpu_seconds - self._cpu_seconds, now - self._sampled_at
        self._cpu_seconds, self._sampled_at = cpu_seconds, now
        # A process that is buried in the middle of a look is missed, and counts twice in the next.
        cores = os.cpu_count() or 1
        return 100.0 * min(max(taken / elapsed, 0.0), cores) if elapsed > 0 else 0.0


def _append(readings: deque[Reading], reading: Reading, kept: timedelta) -> None:
    """Add a reading and drop what is older than `kept`, or in the future of a clock set back."""
    while readings and readings[-1].at > reading.at:
        readings.pop()
    readings.append(reading)
    while reading.at - readings[0].at > kept:
        readings.popleft()

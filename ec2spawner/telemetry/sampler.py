"""One thread that samples; all readers take what it found last."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psutil

from ..core.idle import WINDOW_MAX, Reading
from ..wire import Telemetry
from .gpus import GpuSource
from .processes import Processes

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
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._sampled_at: float | None = None
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

    def start(self) -> None:
        """Start to sample; started already is no error."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Stop to sample; waits for a sample that is under way, for `timeout` seconds at most."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join(timeout)

    def _run(self) -> None:
        psutil.cpu_percent()
        self._processes.cpu_seconds_since_last()
        self._sampled_at = time.monotonic()
        wait = min(self._interval, 0.2)
        while not self._stopping.wait(wait):
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

    def _sample(self) -> None:
        taken = self._processes.cpu_seconds_since_last()
        sampled_at = time.monotonic()
        elapsed = sampled_at - (self._sampled_at or sampled_at)
        self._sampled_at = sampled_at
        user_cpu = 100.0 * taken / elapsed if elapsed > 0 else 0.0
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


def _append(readings: deque[Reading], reading: Reading, kept: timedelta) -> None:
    """Add a reading and drop what is older than `kept`, or in the future of a clock set back."""
    while readings and readings[-1].at > reading.at:
        readings.pop()
    readings.append(reading)
    while reading.at - readings[0].at > kept:
        readings.popleft()

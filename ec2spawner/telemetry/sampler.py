"""The sampling thread. Readers get its last sample."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..core.idle.activity import WINDOW_MAX, Reading
from ..wire import GpuSample, KernelState, Sentence, Telemetry, TerminalState, Worker, sentence
from .gpu_source import GpuProcess, GpuSource, Kind
from .processes import Processes
from .scanner import Scanner
from .terminals import terminals

log = logging.getLogger(__name__)

RETENTION = 2 * WINDOW_MAX
"""How far back readings reach: `core.idle` averages over up to `WINDOW_MAX`."""

OLD_SECONDS = 30.0
"""Figures older than this are not reported as current. They stand still where a driver hangs:
its call does not return, and nothing can end it."""

IDENTITY_FIELDS = {"index", "name", "uuid", "memory_total_mib"}
IDENTITY_FIELDS |= {"ecc_uncorrected", "xid", "xid_at", "lost"}
"""The fields of a GPU that stay valid when its figures are old."""

DRIVER_SILENT = sentence("gpu-driver-silent")

CHECK_SECONDS = 1.0
"""Between two checks whether a sample is due: a shorter interval takes effect after this long."""


class Sampler:
    """Samples every `interval` seconds between `start` and `stop`. Reading is thread-safe."""

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        *,
        interval: float = 1.0,
        home: Path | None = None,
        server_pid: Callable[[], int | None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        on_sample: Callable[[Telemetry], None] | None = None,
    ) -> None:
        """`home`: the file system whose space is reported. `server_pid`: the notebook server,
        whose own CPU use (saving, requests of open tabs) is not the user's work. `on_sample` is
        called in the sampling thread."""
        self.interval = interval
        """Seconds from one sample to the next; may be changed at any time."""
        self._gpus = gpus
        self._processes = processes
        self._home = home
        self._server_pid = server_pid
        self._now = now
        self._clock = clock
        self._on_sample = on_sample
        self._lock = threading.Lock()
        self._latest: Telemetry | None = None
        self._latest_at = 0.0
        """When it was taken; before the first, when sampling started."""
        self._without_figures: Telemetry | None = None
        """What is reported in its place once it is old."""
        self._is_in_driver = False
        self._rest: Sampler | None = None
        """Samples everything except the GPUs while their driver hangs."""
        self._gpu: deque[Reading] = deque()
        self._cpu: deque[Reading] = deque()
        self._terminals: list[TerminalState] = []
        self._kernels: Sequence[KernelState] = ()
        self._thread: threading.Thread | None = None
        self._stopping: threading.Event | None = None
        """Ends the running thread; None if there is none."""
        self._failure = ""

    @property
    def latest(self) -> Telemetry | None:
        """The last sample; None before the first. An old one has no figures."""
        fallback = self._fallback()
        if fallback is not None:
            return fallback.latest
        with self._lock:
            if not self._is_old():
                return self._latest
            if self._without_figures is None:
                self._without_figures = self._old()
            return self._without_figures

    @property
    def workers(self) -> list[Worker] | None:
        """What uses GPUs and CPU now; None if unknown, as while a driver hangs."""
        if self._fallback() is not None:
            return None
        with self._lock:
            return None if self._latest is None or self._is_old() else self._latest.workers

    def readings(self) -> tuple[list[Reading], list[Reading]]:
        """(GPU, CPU of the user's processes), oldest first, the last two minutes."""
        with self._lock:
            # One lock for both, so that none is lost or counted twice when the driver responds.
            later = self._rest.readings()[1] if self._rest is not None else []
            return list(self._gpu), [*self._cpu, *later]

    def terminals(self) -> list[TerminalState]:
        """The user's terminals, and what runs in their foreground."""
        fallback = self._fallback()
        if fallback is not None:
            return fallback.terminals()
        with self._lock:
            return self._terminals

    def see_kernels(self, kernels: Sequence[KernelState]) -> None:
        """Set the kernels, so that their processes are named after their notebooks."""
        with self._lock:
            self._kernels = kernels
            if self._rest is not None:
                self._rest.see_kernels(kernels)

    def start(self) -> None:
        """Start sampling. Idempotent."""
        if self._stopping is None:
            self._stopping = threading.Event()
            self._latest_at = self._clock()
            self._thread = threading.Thread(
                target=self._run, args=(self._stopping, self._thread), name="telemetry", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float = 0.0) -> None:
        """Stop sampling; wait at most `timeout` seconds for a sample in progress.

        On an event loop leave it at 0: a driver may hang.
        """
        stopping, self._stopping = self._stopping, None
        if stopping is not None and self._thread is not None:
            stopping.set()
            with self._lock:
                self._end_rest()
            self._thread.join(timeout)

    def _run(self, stopping: threading.Event, before: threading.Thread | None) -> None:
        if before is not None:
            # It closes the GPUs when it ends; only one thread may use them.
            before.join()
        scanner = Scanner(self._gpus, self._processes, self._home, self._server_pid)
        sampled_at, wait = time.monotonic(), min(self.interval, 0.2)
        while not stopping.wait(min(max(sampled_at + wait - time.monotonic(), 0.0), CHECK_SECONDS)):
            if time.monotonic() < sampled_at + min(wait, self.interval):
                continue
            sampled_at, wait = time.monotonic(), self.interval
            try:
                self._sample(scanner)
                self._failure = ""
            except Exception as error:
                # Errors of a driver or of /proc must not end the thread or flood the log.
                if repr(error) != self._failure:
                    log.exception("a sample failed; the next ones follow")
                self._failure = repr(error)
        self._gpus.close()
        with self._lock:
            self._terminals = []

    def _sample(self, scanner: Scanner) -> None:
        scan = scanner.scan()
        in_terminals = terminals(scan.processes)
        with self._lock:
            self._terminals = in_terminals
            kernels = self._kernels
        user_cpu = scanner.user_cpu_percent
        # Without a driver there is nothing that could hang.
        self._is_in_driver = not isinstance(self._gpus, SilentGpus)
        try:
            gpus = self._gpus.sample(user_cpu)
            now = self._now()
            busy = scanner.workers(scan, kernels, in_terminals)
        finally:
            self._is_in_driver = False
        latest = Telemetry(
            at=now,
            gpu_source=self._gpus.kind,
            gpu_error=self._gpus.error,
            gpus=gpus,
            workers=busy,
            **scanner.machine.figures(),
        )
        uses = [gpu.use_percent for gpu in gpus if gpu.use_percent is not None]
        with self._lock:
            self._latest, self._latest_at = latest, self._clock()
            self._without_figures = None
            self._end_rest()
            _append(self._cpu, Reading(now, user_cpu), RETENTION)
            if uses:
                _append(self._gpu, Reading(now, max(uses)), RETENTION)
        if self._on_sample is not None:
            self._on_sample(latest)

    def _fallback(self) -> Sampler | None:
        """The sampler that continues while the driver hangs, once it has a sample.

        Work beside the GPUs must not count as idle only because it is not measured.
        """
        with self._lock:
            if self._rest is None and self._is_in_driver and self._is_old():
                self._rest = self._begin_rest()
            rest = self._rest
        if rest is None or rest.latest is None:
            return None
        rest.interval = self.interval
        return rest

    def _begin_rest(self) -> Sampler:
        known = self._old()
        rest = Sampler(
            SilentGpus(self._gpus.kind, known.gpus if known is not None else []),
            self._processes,
            interval=self.interval,
            home=self._home,
            server_pid=self._server_pid,
            now=self._now,
            clock=self._clock,
            on_sample=self._on_sample,
        )
        rest.see_kernels(self._kernels)
        rest.start()
        return rest

    def _end_rest(self) -> None:
        """End the fallback, and keep its readings as part of the past."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.stop()
            for reading in rest.readings()[1]:
                _append(self._cpu, reading, RETENTION)

    def _is_old(self) -> bool:
        """Whether a sample is long overdue."""
        return self._stopping is not None and self._clock() - self._latest_at > OLD_SECONDS

    def _old(self) -> Telemetry | None:
        """The last sample without figures, and with the reason that there is no newer one."""
        before = self._latest
        if before is None:
            if not self._is_in_driver:
                return None
            kind = self._gpus.kind
            return Telemetry(at=self._now(), gpu_source=kind, gpu_error=DRIVER_SILENT)
        return Telemetry(
            at=before.at,
            gpu_source=before.gpu_source,
            gpu_error=DRIVER_SILENT if self._is_in_driver else before.gpu_error,
            gpus=[_without_figures_of(gpu) for gpu in before.gpus],
            cpu_count=before.cpu_count,
        )


class SilentGpus:
    """GPUs whose driver hangs, as last identified."""

    error: Sentence | None = DRIVER_SILENT

    def __init__(self, kind: Kind, known: list[GpuSample]) -> None:
        self.kind = kind
        self._known = known

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """The GPUs as last identified, without a call to the driver."""
        return self._known

    def processes(self, busy: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """None: only the driver knows."""
        return []

    def close(self) -> None:
        """There is nothing to close."""


def _without_figures_of(gpu: GpuSample) -> GpuSample:
    """A GPU without its figures."""
    return GpuSample.model_validate(gpu.model_dump(include=IDENTITY_FIELDS))


def _append(readings: deque[Reading], reading: Reading, retention: timedelta) -> None:
    """Add a reading and drop readings older than `retention`, or in the future (clock set back)."""
    while readings and readings[-1].at > reading.at:
        readings.pop()
    readings.append(reading)
    while reading.at - readings[0].at > retention:
        readings.popleft()

"""One thread that samples; all readers take what it found last."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..core.activity import WINDOW_MAX, Reading
from ..wire import KernelState, Telemetry, TerminalState, Worker
from .gpu_source import GpuSource
from .machine import Machine
from .namespaces import Namespace
from .processes import Look, Process, Processes, ProcessTable
from .programs import NOTEBOOK_SERVER, ProgramNames
from .terminals import terminals
from .workers import Past, Seen, group, workers

log = logging.getLogger(__name__)

KEPT = 2 * WINDOW_MAX
"""How far back readings are kept: `core.idle` averages over up to `WINDOW_MAX`."""

LOOK_SECONDS = 1.0
"""Between two looks whether it is time: a pace that is made faster is followed after so long."""


class Sampler:
    """Samples the machine every `interval` seconds while it is started. Thread-safe to read."""

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        *,
        interval: float = 1.0,
        home: Path | None = None,
        server_pid: Callable[[], int | None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_sample: Callable[[Telemetry], None] | None = None,
    ) -> None:
        """`home`: the disk of interest. `server_pid`: the notebook server, whose own CPU use, as
        when it saves or an open tab asks, is not the user's work. `on_sample` is called in the
        sampling thread."""
        self.interval = interval
        """Seconds from one sample to the next; may be changed at any time."""
        self._gpus = gpus
        self._processes = processes
        self._home = home
        self._server_pid = server_pid
        self._now = now
        self._on_sample = on_sample
        self._lock = threading.Lock()
        self._latest: Telemetry | None = None
        self._gpu: deque[Reading] = deque()
        self._cpu: deque[Reading] = deque()
        self._terminals: list[TerminalState] = []
        self._kernels: Sequence[KernelState] = ()
        self._thread: threading.Thread | None = None
        self._stopping: threading.Event | None = None
        """Of the thread that samples now, if one does."""
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

    def see_kernels(self, kernels: Sequence[KernelState]) -> None:
        """Which kernels there are, so that their processes are known by their notebooks' names."""
        with self._lock:
            self._kernels = kernels

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
        work = _Work(self._gpus, self._processes, self._home, self._server_pid)
        sampled_at, wait = time.monotonic(), min(self.interval, 0.2)
        while not stopping.wait(min(max(sampled_at + wait - time.monotonic(), 0.0), LOOK_SECONDS)):
            if time.monotonic() < sampled_at + min(wait, self.interval):
                continue
            sampled_at, wait = time.monotonic(), self.interval
            try:
                self._sample(work)
                self._failure = ""
            except Exception as error:
                # A driver or a /proc that misbehaves shall not end the thread, nor fill the log.
                if repr(error) != self._failure:
                    log.exception("a sample failed; the next ones go on")
                self._failure = repr(error)
        self._gpus.close()
        with self._lock:
            self._terminals = []

    def _sample(self, work: _Work) -> None:
        look = work.look()
        in_terminals = terminals(look.processes)
        with self._lock:
            self._terminals = in_terminals
            kernels = self._kernels
        user_cpu = work.user_cpu_percent
        gpus = self._gpus.sample(user_cpu)
        now = self._now()
        latest = Telemetry(
            at=now,
            gpu_source=self._gpus.kind,
            gpu_problem=self._gpus.problem,
            gpus=gpus,
            workers=work.workers(look, kernels, in_terminals),
            **work.machine.figures(),
        )
        uses = [gpu.use_percent for gpu in gpus if gpu.use_percent is not None]
        with self._lock:
            self._latest = latest
            _append(self._cpu, Reading(now, user_cpu), KEPT)
            if uses:
                _append(self._gpu, Reading(now, max(uses)), KEPT)
        if self._on_sample is not None:
            self._on_sample(latest)


class _Work:
    """What the sampling thread keeps from one sample to the next."""

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        home: Path | None,
        server_pid: Callable[[], int | None],
    ) -> None:
        self.machine = Machine(home)
        self.user_cpu_percent = 0.0
        """The user's processes in the last look without the notebook server itself, in percent of
        one core, and of no more than there are."""
        self._gpus = gpus
        self._processes = processes
        self._server_pid = server_pid
        self._table = ProcessTable()
        self._names = ProgramNames()
        self._namespace = Namespace()
        self._everything: dict[int, Process] = {}
        self._past = Past()
        self._elapsed = 0.0
        self._on_gpus: set[int] = set()
        """Numbers of the processes with memory on a GPU, at the last look."""
        self._cpu_seconds = self._user_cpu_seconds(processes.look(self._read()))
        self._looked_at = time.monotonic()

    def look(self) -> Look:
        look = self._processes.look(self._read())
        now = time.monotonic()
        cpu_seconds = self._user_cpu_seconds(look)
        taken, self._elapsed = cpu_seconds - self._cpu_seconds, now - self._looked_at
        self._cpu_seconds, self._looked_at = cpu_seconds, now
        # A process that is buried in the middle of a look is missed, and counts twice in the next.
        use = min(max(taken / self._elapsed, 0.0), os.cpu_count() or 1) if self._elapsed > 0 else 0
        self.user_cpu_percent = 100.0 * use
        return look

    def workers(
        self, look: Look, kernels: Sequence[KernelState], in_terminals: Sequence[TerminalState]
    ) -> list[Worker]:
        seen = {each.pid: each for each in look.processes}
        for pid, started in self._past.owners:
            # What has left the user's processes and still runs has detached.
            process = self._everything.get(pid)
            if process is not None and process.started == started:
                seen.setdefault(pid, process)
        for pid in self._on_gpus & self._everything.keys():
            seen.setdefault(pid, self._everything[pid])
        groups = group(Seen(list(seen.values()), kernels, in_terminals, self._elapsed), self._past)
        self._past = groups.past
        at_work = [(identity[0], use) for identity, use in groups.cpu_percent.items()]
        on_gpus = self._gpus.processes(at_work)
        if self._gpus.kind == "nvml":
            on_gpus = [self._namespace.told(each, self._everything) for each in on_gpus]
        self._on_gpus = {each.pid for each in on_gpus}
        return workers(groups, on_gpus, self._name_of)

    def _name_of(self, pid: int) -> str:
        if pid == self._server_pid():
            return NOTEBOOK_SERVER
        return self._names.name(self._everything[pid]) if pid in self._everything else ""

    def _user_cpu_seconds(self, look: Look) -> float:
        server = self._everything.get(self._server_pid() or 0)
        return look.cpu_seconds - (server.cpu_seconds if server is not None else 0.0)

    def _read(self) -> dict[int, Process]:
        closely = {pid for pid, _ in self._past.owners} | self._on_gpus
        self._everything = self._table.read(closely)
        return self._everything


def _append(readings: deque[Reading], reading: Reading, kept: timedelta) -> None:
    """Add a reading and drop what is older than `kept`, or in the future of a clock set back."""
    while readings and readings[-1].at > reading.at:
        readings.pop()
    readings.append(reading)
    while reading.at - readings[0].at > kept:
        readings.popleft()

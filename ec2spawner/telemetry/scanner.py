"""Scans the instance's processes: CPU use of the user's, and who uses the GPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..wire import KernelState, TerminalState, Worker
from .gpu_source import GpuSource
from .machine import Machine
from .namespaces import Namespace
from .processes import Process, Processes, ProcessTable, Scan
from .programs import NOTEBOOK_SERVER, program_name
from .workers import Past, Seen, group, workers


class Scanner:
    """State of the sampling thread from one sample to the next."""

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        home: Path | None,
        server_pid: Callable[[], int | None],
    ) -> None:
        self.machine = Machine(home)
        self.user_cpu_percent = 0.0
        """The user's processes in the last scan without the notebook server itself, in percent of
        one core, and of no more than there are."""
        self._gpus = gpus
        self._processes = processes
        self._server_pid = server_pid
        self._table = ProcessTable()
        self._namespace = Namespace()
        self._everything: dict[int, Process] = {}
        self._past = Past()
        self._elapsed = 0.0
        self._on_gpus: set[int] = set()
        """Numbers of the processes with memory on a GPU, at the last scan."""
        self._cpu_seconds = self._user_cpu_seconds(processes.scan(self._read()))
        self._scanned_at = time.monotonic()

    def scan(self) -> Scan:
        """Read the processes now, and the CPU use of the user's since the last scan."""
        scan = self._processes.scan(self._read())
        now = time.monotonic()
        cpu_seconds = self._user_cpu_seconds(scan)
        taken, self._elapsed = cpu_seconds - self._cpu_seconds, now - self._scanned_at
        self._cpu_seconds, self._scanned_at = cpu_seconds, now
        # A process that is reaped during a scan is missed, and counts twice in the next.
        use = min(max(taken / self._elapsed, 0.0), os.cpu_count() or 1) if self._elapsed > 0 else 0
        self.user_cpu_percent = 100.0 * use
        return scan

    def workers(
        self, scan: Scan, kernels: Sequence[KernelState], in_terminals: Sequence[TerminalState]
    ) -> list[Worker]:
        """Which kernels, terminals and programs use GPUs and CPU, the busiest first."""
        seen = {each.pid: each for each in scan.processes}
        for pid, started in self._past.owners:
            # A process that left the user's tree and still runs has detached.
            process = self._everything.get(pid)
            if process is not None and process.started == started:
                seen.setdefault(pid, process)
        for pid in self._on_gpus & self._everything.keys():
            seen.setdefault(pid, self._everything[pid])
        groups = group(Seen(list(seen.values()), kernels, in_terminals, self._elapsed), self._past)
        self._past = groups.past
        busy = [(identity[0], use) for identity, use in groups.cpu_percent.items()]
        on_gpus = self._gpus.processes(busy)
        if self._gpus.kind == "nvml":
            on_gpus = [self._namespace.translated(each, self._everything) for each in on_gpus]
        self._on_gpus = {each.pid for each in on_gpus}
        return workers(groups, on_gpus, self._name_of)

    def _name_of(self, pid: int) -> str:
        if pid == self._server_pid():
            return NOTEBOOK_SERVER
        return program_name(self._everything[pid]) if pid in self._everything else ""

    def _user_cpu_seconds(self, scan: Scan) -> float:
        server = self._everything.get(self._server_pid() or 0)
        return scan.cpu_seconds - (server.cpu_seconds if server is not None else 0.0)

    def _read(self) -> dict[int, Process]:
        closely = {pid for pid, _ in self._past.owners} | self._on_gpus
        self._everything = self._table.read(closely)
        return self._everything

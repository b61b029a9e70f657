"""Checks whether a process id from the driver belongs to this process namespace.

In a container, processes have ids of their own. A driver may report the host's ids even there, and
such an id may be that of an unrelated process in the container. So in a container a process counts
as a GPU user only if it has an NVIDIA device open, as every process that computes has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .gpu_source import GpuProcess
from .processes import Process

HOST_NAMESPACE = "pid:[4026531836]"
"""The initial process namespace has this inode on every Linux (`PROC_PID_INIT_INO`)."""

DEVICES = "/dev/nvidia"

MAX_KEPT = 1000


class Namespace:
    """The process namespace of this process, and the ids checked so far."""

    def __init__(self, place: Path = Path("/proc/self/ns/pid")) -> None:
        self._is_container = _link(place) not in ("", HOST_NAMESPACE)
        self._uses: dict[tuple[int, int], bool] = {}

    def translated(self, found: GpuProcess, processes: Mapping[int, Process]) -> GpuProcess:
        """The process that the driver reported; with id 0 if it is not in this namespace."""
        process = processes.get(found.pid)
        if not self._is_container or process is None:
            return found
        key = process.pid, process.started
        if key not in self._uses:
            if len(self._uses) >= MAX_KEPT:
                self._uses.clear()
            self._uses[key] = _has_open(process.pid, DEVICES)
        return found if self._uses[key] else replace(found, pid=0)


def _has_open(pid: int, prefix: str) -> bool:
    """Whether it has a file open; True if that may not be read."""
    try:
        return any(_link(each).startswith(prefix) for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a text such as `pid:[1]` is no path
    except OSError:
        return ""

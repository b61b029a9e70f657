"""Whether a process that the driver names is one of here.

In a container, processes have numbers of the container's own. A driver may report the machine's
numbers even there, and one of these may be that of another process here: its notebook would be
blamed for somebody else's work. So in a container a process is believed to be on a GPU
when it has a device of NVIDIA's open, as each that computes has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .gpu_source import GpuProcess
from .processes import Process

OF_THE_MACHINE = "pid:[4026531836]"
"""The first namespace of processes has this number in every Linux (`PROC_PID_INIT_INO`)."""

DEVICES = "/dev/nvidia"

MAX_KEPT = 1000


class Namespace:
    """Where we are, and who has been looked at."""

    def __init__(self, place: Path = Path("/proc/self/ns/pid")) -> None:
        self._is_container = _link(place) not in ("", OF_THE_MACHINE)
        self._uses: dict[tuple[int, int], bool] = {}

    def translated(self, found: GpuProcess, processes: Mapping[int, Process]) -> GpuProcess:
        """What the driver reported; with number 0 if that is not of its process here."""
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
    """Also where that may not be seen: then there is no reason to doubt it."""
    try:
        return any(_link(each).startswith(prefix) for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a text such as `pid:[1]` is no path
    except OSError:
        return ""

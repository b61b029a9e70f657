"""The user's processes, read from `/proc` in one pass."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    state: str
    """One letter as in `ps`; `Z` is a zombie."""
    cpu_seconds: float
    start_ticks: int
    """Since boot; with the pid it names a process for good."""


@dataclass
class Processes:
    """The descendants of `root_pid`, and everything that runs as `uid`.

    With a subreaper as root the descendants include daemons that detached. `uid` is for an
    instance whose notebook user is not the agent's: there a job started over ssh is the user's
    work too.
    """

    root_pid: int
    uid: int | None = None
    include_root: bool = False
    _cpu_before: dict[tuple[int, int], float] = field(default_factory=dict, repr=False)

    def list(self) -> list[Process]:
        """Every process of the user, parents before their children."""
        everything = dict(_read_all())
        children: dict[int, list[int]] = {}
        for process, _ in everything.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: dict[int, Process] = {}
        waiting = [self.root_pid]
        while waiting:
            pid = waiting.pop()
            waiting.extend(children.get(pid, ()))
            if pid in everything and (pid != self.root_pid or self.include_root):
                found[pid] = everything[pid][0]
        if self.uid is not None:
            for pid, (process, uid) in everything.items():
                if uid == self.uid and pid != self.root_pid:
                    found.setdefault(pid, process)
        return list(found.values())

    def cpu_seconds_since_last(self) -> float:
        """CPU time that the user's processes took since the last call; 0 at the first."""
        now = {(each.pid, each.start_ticks): each.cpu_seconds for each in self.list()}
        before, self._cpu_before = self._cpu_before, now
        return sum(max(taken - before.get(key, taken), 0.0) for key, taken in now.items())


def _read_all() -> Iterator[tuple[int, tuple[Process, int]]]:
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                try:
                    with open(f"/proc/{entry.name}/stat", "rb") as file:  # noqa: PTH123 - hot
                        text = file.read()
                    uid = entry.stat().st_uid
                except OSError:
                    continue
                # The name, field 2, stands in brackets and may hold anything, brackets too.
                fields = text[text.rindex(b")") + 2 :].split()
                process = Process(
                    pid=int(entry.name),
                    parent=int(fields[1]),
                    state=fields[0].decode(),
                    cpu_seconds=(int(fields[11]) + int(fields[12])) / CLOCK_TICKS,
                    start_ticks=int(fields[19]),
                )
                yield process.pid, (process, uid)

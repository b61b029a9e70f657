"""The user's processes, read from `/proc` in one pass."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    group: int
    state: str
    """One letter as in `ps`; `Z` is a zombie."""
    terminal: int
    """Number of its controlling terminal, or 0."""
    foreground: int
    """The process group in the foreground of that terminal."""
    cpu_seconds: float
    """Its own."""
    buried_cpu_seconds: float
    """That of its descendants which have ended and been waited for."""
    started: int
    """When, in the kernel's ticks: with the number it names one process for good."""


@dataclass(frozen=True, slots=True)
class Look:
    """One pass over the user's processes."""

    processes: list[Process]
    """Parents before their children."""
    cpu_seconds: float
    """Of all of them, those that have ended too: a process that ends leaves its time to its
    parent. It becomes less where that is none of the user's."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The descendants of `root_pid`, and everything that runs as `uid`.

    With a subreaper as root the descendants include daemons that detached. `uid` is for an
    instance whose notebook user is not the agent's: there a job started over ssh is the user's
    work too.
    """

    root_pid: int
    uid: int | None = None
    include_root: bool = False
    spared: set[tuple[int, int]] = field(default_factory=set, compare=False)
    """Number and start of descendants that are not the user's, nor is what they start."""

    def spare_all_but(self, user_pid: int | None) -> None:
        """Of the descendants of now, the user's are `user_pid` with what it has started, and what
        runs as `uid`."""
        of_user = Processes(user_pid or _NOBODY, self.uid, include_root=True).list()
        users = {each.pid for each in of_user}
        self.spared.update(
            (each.pid, each.started)
            for each in self.list()
            if each.pid not in users and each.state != "Z"
        )

    def look(self) -> Look:
        everything = dict(_read_all())
        children: dict[int, list[int]] = {}
        for process, _ in everything.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: dict[int, Process] = {}
        waiting = [self.root_pid]
        while waiting:
            pid = waiting.pop()
            if pid in everything and (pid, everything[pid][0].started) in self.spared:
                continue
            waiting.extend(children.get(pid, ()))
            if pid in everything and (pid != self.root_pid or self.include_root):
                found[pid] = everything[pid][0]
        if self.uid is not None:
            for pid, (process, uid) in everything.items():
                if uid == self.uid and pid != self.root_pid:
                    found.setdefault(pid, process)
        cpu_seconds = sum(each.cpu_seconds + each.buried_cpu_seconds for each in found.values())
        if self.root_pid in everything and not self.include_root:
            cpu_seconds += everything[self.root_pid][0].buried_cpu_seconds
        return Look(list(found.values()), cpu_seconds)

    def list(self) -> list[Process]:
        """Every process of the user, parents before their children."""
        return self.look().processes


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
                    group=int(fields[2]),
                    state=fields[0].decode(),
                    terminal=int(fields[4]),
                    foreground=int(fields[5]),
                    cpu_seconds=(int(fields[11]) + int(fields[12])) / CLOCK_TICKS,
                    buried_cpu_seconds=(int(fields[13]) + int(fields[14])) / CLOCK_TICKS,
                    started=int(fields[19]),
                )
                yield process.pid, (process, uid)

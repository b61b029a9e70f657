"""The user's processes, read from `/proc`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

TURNS = 10
"""A process that is not the user's is read in every tenth scan, and a thread of the kernel once: a
machine with a hundred cores has two thousand of these in its list."""

MANY = 400
LIST_SECONDS = 2.5
"""Above `MANY` processes, `/proc` is listed only at this interval: listing costs a microsecond for
each. New processes, and their CPU time, are seen at the next listing."""

KTHREADD = 2
"""The parent of the kernel's threads, where a container does not hide it."""

_NO_PID = -1


class Process(NamedTuple):
    """One process from `/proc`."""

    pid: int
    parent: int
    group: int
    session: int
    """The leader of its session; a process that detaches without `setsid` stays in it."""
    state: str
    """One letter as in `ps`; `Z` is a zombie."""
    terminal: int
    """Number of its controlling terminal, or 0."""
    foreground: int
    """The process group in the foreground of that terminal."""
    cpu_seconds: float
    """Of the process itself."""
    reaped_cpu_seconds: float
    """Of its descendants that have ended and been waited for."""
    started: int
    """Start time in the kernel's ticks: identifies a process together with the id."""
    resident_mib: float
    """Resident memory, shared memory included."""
    name: str
    """As in `ps`: 15 characters of the program's name, or the title that the process has set."""
    uid: int


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan of the user's processes."""

    processes: list[Process]
    """Parents before their children."""
    cpu_seconds: float
    """Of all of them, including ended ones, whose time is added to their parent's. It decreases if
    the parent is not one of the user's."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The descendants of `root_pid`, and everything that runs as `uid`.

    With a subreaper as root the descendants include detached daemons. `uid` is set if the notebook
    user is not the agent's: then jobs started over ssh are the user's work too.
    """

    root_pid: int
    uid: int | None = None
    include_root: bool = False
    spared: set[tuple[int, int]] = field(default_factory=set, compare=False)
    """Id and start time of descendants that do not belong to the user, nor do their children."""

    def spare_all_but(self, user_pid: int | None) -> None:
        """Exclude all current descendants except `user_pid` with its own, and those of `uid`."""
        of_user = Processes(user_pid or _NO_PID, self.uid, include_root=True).list()
        users = {each.pid for each in of_user}
        self.spared.update(
            (each.pid, each.started)
            for each in self.list()
            if each.pid not in users and each.state != "Z"
        )

    def scan(self, everything: Mapping[int, Process] | None = None) -> Scan:
        """The user's among `everything`, or among what runs now."""
        if everything is None:
            everything = ProcessTable().read()
        children: dict[int, list[int]] = {}
        for process in everything.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: dict[int, Process] = {}
        waiting = [self.root_pid]
        while waiting:
            pid = waiting.pop()
            if pid in everything and (pid, everything[pid].started) in self.spared:
                continue
            waiting.extend(children.pop(pid, ()))
            if pid in everything and (pid != self.root_pid or self.include_root):
                found[pid] = everything[pid]
        if self.uid is not None:
            for pid, process in everything.items():
                if process.uid == self.uid and pid != self.root_pid:
                    found.setdefault(pid, process)
        cpu_seconds = sum(each.cpu_seconds + each.reaped_cpu_seconds for each in found.values())
        if self.root_pid in everything and not self.include_root:
            cpu_seconds += everything[self.root_pid].reaped_cpu_seconds
        return Scan(list(found.values()), cpu_seconds)

    def list(self) -> list[Process]:
        """Every process of the user, parents before their children."""
        return self.scan().processes


class ProcessTable:
    """All processes of the instance, read repeatedly."""

    def __init__(self) -> None:
        self._known: dict[int, Process] = {}
        self._scans = 0
        self._listed_at = -math.inf

    def read(self, closely: Collection[int] = ()) -> dict[int, Process]:
        """All processes. Those in `closely` and a tenth of the others are read now; the rest is
        from previous scans."""
        self._scans += 1
        now = time.monotonic()
        if len(self._known) > MANY and now - self._listed_at < LIST_SECONDS:
            self._known = self._reread(closely)
        else:
            self._listed_at = now
            self._known = self._list(closely)
        return self._known

    def _reread(self, closely: Collection[int]) -> dict[int, Process]:
        found = dict(self._known)
        for pid in closely:
            process = read_process(pid)
            if process is not None:
                found[pid] = process
            else:
                found.pop(pid, None)
        return found

    def _list(self, closely: Collection[int]) -> dict[int, Process]:
        known, turn = self._known, self._scans % TURNS
        has_kernel = KTHREADD in known and known[KTHREADD].name == "kthreadd"
        found: dict[int, Process] = {}
        for entry in os.listdir("/proc"):  # noqa: PTH208 - hot
            if not entry.isdecimal():
                continue
            pid = int(entry)
            process = known.get(pid)
            if (
                process is None
                or pid in closely
                or (pid % TURNS == turn and not (has_kernel and process.parent == KTHREADD))
            ):
                process = read_process(pid)
            if process is not None:
                found[pid] = process
        return found


def read_process(pid: int) -> Process | None:
    """One process; None if it has ended or cannot be parsed."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(file, 4096)
        finally:
            os.close(file)
        uid = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - hot
        # The name, field 2, is in brackets and may contain anything, brackets too.
        start, end = text.index(b"("), text.rindex(b")")
        fields = text[end + 2 :].split(None, 23)
        return Process(
            pid=pid,
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            state=fields[0].decode(),
            terminal=int(fields[4]),
            foreground=int(fields[5]),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / CLOCK_TICKS,
            reaped_cpu_seconds=(int(fields[13]) + int(fields[14])) / CLOCK_TICKS,
            started=int(fields[19]),
            resident_mib=max(int(fields[21]), 0) * PAGE_BYTES / 2**20,
            name=text[start + 1 : end].decode(errors="replace"),
            uid=uid,
        )
    except (OSError, ValueError, IndexError):
        return None

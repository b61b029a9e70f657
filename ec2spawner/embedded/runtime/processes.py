"""Finding and ending every process of an instance, daemons that detached included.

A process is known by a variable in its environment: children inherit it, a new session or a
double fork does not shake it off. Reads `/proc`, so Linux only; everything here blocks and
belongs in a thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Named unlike the agent's own variables, which it keeps from the notebook: these must go along.
INSTANCE_VARIABLE = "EMBEDDED_EC2_INSTANCE"
RUNTIME_VARIABLE = "EMBEDDED_EC2_RUNTIME"
UNIT_VARIABLE = "EMBEDDED_EC2_UNIT"
"""In all that a unit of an instance's systemd has started: what is in its control group on EC2."""

KILL_ROUNDS = 20
"""Scans after SIGKILL: one finds the children that were forked while the scan before it ran."""
KILL_WAIT = 1.0
"""Seconds for killed processes to be gone before the next scan."""
CLEAN_SCANS = 2
"""A process amid `exec` shows no environment for an instant: believe the second empty scan."""
CLEAN_SCAN_GAP = 0.01
"""Seconds between the two."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`NAME=value` in a process's environment."""

    name: str
    value: str

    @property
    def entry(self) -> bytes:
        """As it stands in `/proc/<pid>/environ`."""
        return f"{self.name}={self.value}".encode()


def find(*marks: Mark) -> list[int]:
    """Ids of the processes that carry all the marks."""
    wanted = {mark.entry for mark in marks}
    return [pid for pid in _all() if wanted <= _environment(pid)]


def by_value(name: str, within: Mark) -> dict[str, list[int]]:
    """Value of the variable `name` -> ids of the processes marked `within` that carry it."""
    found: dict[str, list[int]] = {}
    prefix = f"{name}=".encode()
    for pid in _all():
        environment = _environment(pid)
        if within.entry not in environment:
            continue
        for entry in environment:
            if entry.startswith(prefix):
                found.setdefault(entry.removeprefix(prefix).decode(), []).append(pid)
    return found


def command(pid: int) -> str:
    """The short name of a process, without arguments; empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def end(marks: tuple[Mark, ...], grace: float) -> int:
    """End every process with the marks: SIGTERM, after `grace` seconds SIGKILL; that at once for 0.

    Returns how many outlived even that: 0, unless a process cannot be killed.
    """
    if grace:
        _signal_and_wait(find(*marks), signal.SIGTERM, grace, marks)
    return len(_kill_all(lambda: find(*marks), marks))


def end_holders(directory: Path, *marks: Mark) -> int:
    """SIGKILL every process with the marks that has something open in `directory`, or works there.

    Returns how many there were.
    """
    real = directory.resolve()
    ended: set[int] = set()

    def holders() -> list[int]:
        found = [pid for pid in find(*marks) if _holds(pid, real)]
        ended.update(found)
        return found

    _kill_all(holders, marks)
    return len(ended)


def _kill_all(scan: Callable[[], list[int]], marks: tuple[Mark, ...]) -> list[int]:
    """SIGKILL what `scan` finds until it finds nothing; what it still finds at the end."""
    clean = 0
    for _ in range(KILL_ROUNDS):
        pids = scan()
        if pids:
            clean = 0
            _signal_and_wait(pids, signal.SIGKILL, KILL_WAIT, marks)
            continue
        clean += 1
        if clean == CLEAN_SCANS:
            return []
        time.sleep(CLEAN_SCAN_GAP)
    return scan()


def _signal_and_wait(
    pids: Iterable[int], number: int, seconds: float, marks: tuple[Mark, ...]
) -> None:
    wanted = {mark.entry for mark in marks}
    with contextlib.ExitStack() as stack:
        found = []
        for pid in pids:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                # The id may have passed to a stranger since the scan; the descriptor cannot.
                if wanted <= _environment(pid):
                    found.append(descriptor)
        poller = select.poll()
        waiting = 0
        # After all have been checked: one may be identified only by another that ends now.
        for descriptor in found:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, number)
                poller.register(descriptor, select.POLLIN)
                waiting += 1
        deadline = time.monotonic() + seconds
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poller.poll(left * 1000):
                poller.unregister(descriptor)
                waiting -= 1


def _all() -> Iterator[int]:
    own = os.getpid()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != own:
            yield int(process.name)


def _environment(pid: int) -> frozenset[bytes]:
    """That of the process; of the leader of its session where it is closed to us."""
    with contextlib.suppress(OSError):
        try:
            return _read_environment(pid)
        except PermissionError:
            leader = os.getsid(pid)
            return frozenset() if leader == pid else _read_environment(leader)
    return frozenset()


def _read_environment(pid: int) -> frozenset[bytes]:
    return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def _holds(pid: int, directory: Path) -> bool:
    return any(path.is_relative_to(directory) for path in _open_paths(pid))


def _open_paths(pid: int) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield Path(f"/proc/{pid}/cwd").readlink()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield descriptor.readlink()

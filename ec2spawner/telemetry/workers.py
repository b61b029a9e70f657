"""Attributes GPU and CPU use to workers: kernels, terminals and programs, with their children.

Pure. `group` is folded over time: the `Past` that it returns goes into the next call, so that a
detached process still counts for the worker that started it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..wire import KernelState, TerminalState, Worker
from .gpu_source import GpuProcess
from .processes import Process

MAX = 50
"""More than this are not reported; the busiest are."""

MIN_CPU_PERCENT = 1.0
"""A program with less, and without a GPU, counts as not working."""

SMOOTHED_SECONDS = 3.0
"""CPU use is averaged over about this long, so that the order does not change each second."""

MAX_NAME_LETTERS = 120

Identity = tuple[int, int]
"""Id and start time of a process, because ids are reused."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What runs at one instant."""

    processes: Sequence[Process]
    """The user's, those with a GPU, and those in `Past.owners` that still run."""
    kernels: Sequence[KernelState] = ()
    terminals: Sequence[TerminalState] = ()
    elapsed: float = 0.0
    """Seconds since the previous scan."""


@dataclass(frozen=True, slots=True)
class Root:
    """The first process of a worker."""

    kind: Literal["kernel", "terminal", "program"]
    process: Process
    kernel: KernelState | None = None
    terminal: TerminalState | None = None

    @property
    def identity(self) -> Identity:
        """Process id and start time: ids are reused."""
        return self.process.pid, self.process.started


@dataclass(frozen=True, slots=True)
class Past:
    """What one scan hands to the next."""

    processes: Mapping[int, Process] = field(default_factory=dict)
    owners: Mapping[Identity, Identity] = field(default_factory=dict)
    """Process -> the first process of its worker."""
    cpu_percent: Mapping[Identity, float] = field(default_factory=dict)
    """By the first process of each worker."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The processes of a scan, by whose they are."""

    roots: Mapping[int, Root]
    """Process id -> worker."""
    cpu_percent: Mapping[Identity, float]
    """By the first process of each worker, in percent of one core; empty in the first scan."""
    past: Past
    members: Mapping[Identity, list[Process]]


def group(seen: Seen, past: Past) -> Groups:
    """Assign each process to the kernel, terminal or program that started it."""
    by_pid = {each.pid: each for each in seen.processes}
    roots = _owners(seen, by_pid, past)
    members: dict[Identity, list[Process]] = {}
    for process in seen.processes:
        members.setdefault(roots[process.pid].identity, []).append(process)
    now = cpu_use(past.processes, by_pid, seen.elapsed)
    weight = min(seen.elapsed / SMOOTHED_SECONDS, 1.0)
    cpu: dict[Identity, float] = {}
    for identity, processes in members.items() if past.processes else ():
        use = sum(now.get(each.pid, 0.0) for each in processes)
        before = past.cpu_percent.get(identity, use)
        smooth = before + (use - before) * weight
        cpu[identity] = smooth if smooth >= 0.05 else 0.0
    owners = {
        (process.pid, process.started): roots[process.pid].identity for process in seen.processes
    }
    return Groups(roots, cpu, Past(by_pid, owners, cpu), members)


def workers(
    groups: Groups, on_gpus: Iterable[GpuProcess], name_of: Callable[[int], str]
) -> list[Worker]:
    """The workers, busiest first. `name_of` returns a program's name by process id."""
    by_root: dict[Identity, list[GpuProcess]] = {}
    unseen: dict[int, list[GpuProcess]] = {}
    for each in on_gpus:
        root = groups.roots.get(each.pid)
        if root is not None:
            by_root.setdefault(root.identity, []).append(each)
        else:
            unseen.setdefault(each.pid, []).append(each)
    found = [
        _worker(groups, root, by_root.get(root.identity, []), name_of)
        for root in {each.identity: each for each in groups.roots.values()}.values()
        if _is_reported(groups, root, root.identity in by_root)
    ]
    found += [
        Worker(
            kind="program",
            name="A program that cannot be seen from here, such as in a container",
            pid=pid,
            **_gpu_figures(uses),
        )
        for pid, uses in unseen.items()
    ]
    return sorted(found, key=_busiest_first)[:MAX]


def cpu_use(
    before: Mapping[int, Process], now: Mapping[int, Process], elapsed: float
) -> dict[int, float]:
    """CPU use of each process since the previous scan, in percent of one core.

    A process that has ended leaves its time to its parent; what was counted while it ran is not
    counted again.
    """
    if elapsed <= 0 or not before:
        return {}
    inherited = _counted_of_ended(before, now)
    maximum = 100.0 * (os.cpu_count() or 1)
    found: dict[int, float] = {}
    for pid, process in now.items():
        old = before.get(pid)
        own, reaped = process.cpu_seconds, process.reaped_cpu_seconds
        if old is not None and old.started == process.started:
            own -= old.cpu_seconds
            reaped -= old.reaped_cpu_seconds
        taken = max(own, 0.0) + max(reaped - inherited.get(pid, 0.0), 0.0)
        if taken > 0:
            found[pid] = min(100.0 * taken / elapsed, maximum)
    return found


def _counted_of_ended(
    before: Mapping[int, Process], now: Mapping[int, Process]
) -> dict[int, float]:
    """CPU seconds already counted for ended processes, by their nearest running ancestor."""
    ended = {
        pid: old
        for pid, old in before.items()
        if (process := now.get(pid)) is None or process.started != old.started
    }
    counted: dict[int, float] = {}
    for old in ended.values():
        heir, steps = old.parent, 0
        while heir in ended and steps < len(ended):
            heir, steps = ended[heir].parent, steps + 1
        counted[heir] = counted.get(heir, 0.0) + old.cpu_seconds + old.reaped_cpu_seconds
    return counted


# --- which worker a process belongs to ---------------------------------------------------------


def _owners(seen: Seen, by_pid: Mapping[int, Process], past: Past) -> dict[int, Root]:
    roots = _first_processes(seen, by_pid)
    owners: dict[int, Root] = {}
    for process in seen.processes:
        path: list[Process] = []
        step: Process | None = process
        root: Root | None = None
        while step is not None and len(path) < len(by_pid):
            if (root := owners.get(step.pid) or roots.get(step.pid)) is not None:
                break
            path.append(step)
            step = by_pid.get(step.parent)
        if root is None:
            top = path[-1]
            root = _of_detached(top, by_pid, past, roots) or Root("program", top)
        for each in path:
            owners[each.pid] = root
        owners.setdefault(process.pid, root)
    return _within_kernels(owners, roots, by_pid)


def _first_processes(seen: Seen, by_pid: Mapping[int, Process]) -> dict[int, Root]:
    """The first processes of kernels and terminals. The id of a kernel is ignored if it is not one
    of the user's processes."""
    roots = {}
    by_terminal: dict[str, Process] = {}
    for process in seen.processes:
        if process.terminal and (
            process.pid == process.session or str(process.terminal) not in by_terminal
        ):
            by_terminal[str(process.terminal)] = process
    for terminal in seen.terminals:
        if (first := by_terminal.get(terminal.name)) is not None:
            roots[first.pid] = Root("terminal", first, terminal=terminal)
    for kernel in seen.kernels:
        if kernel.pid is not None and (first := by_pid.get(kernel.pid)) is not None:
            roots[first.pid] = Root("kernel", first, kernel=kernel)
    return roots


def _of_detached(
    top: Process, by_pid: Mapping[int, Process], past: Past, roots: Mapping[int, Root]
) -> Root | None:
    """The worker of a process whose parent is not the user's: the one before it detached, or the
    one of its session or terminal."""
    number, started = past.owners.get((top.pid, top.started), (top.pid, top.started))
    first = by_pid.get(number)
    if number != top.pid and first is not None and first.started == started:
        return roots.get(number) or Root("program", first)
    if top.session != top.pid and (root := roots.get(top.session)) is not None:
        return root
    for root in roots.values():
        if root.terminal is not None and root.terminal.name == str(top.terminal):
            return root
    return None


def _within_kernels(
    owners: dict[int, Root], roots: Mapping[int, Root], by_pid: Mapping[int, Process]
) -> dict[int, Root]:
    """Assign terminals that a kernel opened, as `!command` does, to the kernel."""
    instead: dict[Identity, Root] = {}
    for root in roots.values():
        step, steps = by_pid.get(root.process.parent), 0
        while root.kind == "terminal" and step is not None and steps < len(by_pid):
            above = owners.get(step.pid)
            if above is not None and above.kind == "kernel":
                instead[root.identity] = above
                break
            step, steps = by_pid.get(step.parent), steps + 1
    if not instead:
        return owners
    return {pid: instead.get(root.identity, root) for pid, root in owners.items()}


# --- reporting ---------------------------------------------------------------------------------


def _is_reported(groups: Groups, root: Root, has_gpu: bool) -> bool:
    is_busy = has_gpu or groups.cpu_percent.get(root.identity, 0.0) >= MIN_CPU_PERCENT
    return is_busy or root.kind == "kernel" or bool(root.terminal and root.terminal.foreground)


def _worker(
    groups: Groups, root: Root, on_gpus: Sequence[GpuProcess], name_of: Callable[[int], str]
) -> Worker:
    if root.kernel is not None:
        name = root.kernel.name or "A kernel"
    elif root.terminal is not None:
        name = root.terminal.foreground or "A terminal"
    else:
        name = name_of(root.process.pid) or root.process.name or "A program"
    cpu = groups.cpu_percent.get(root.identity)
    return Worker(
        kind=root.kind,
        name=_short(name),
        pid=root.process.pid,
        kernel_id=root.kernel.id[:200] if root.kernel is not None else "",
        cpu_percent=None if cpu is None else round(cpu, 1),
        memory_mib=round(sum(each.resident_mib for each in groups.members[root.identity]), 1),
        **_gpu_figures(on_gpus),
    )


def _short(name: str) -> str:
    """The end of a path distinguishes two."""
    return name if len(name) <= MAX_NAME_LETTERS else "…" + name[1 - MAX_NAME_LETTERS :]


def _gpu_figures(on_gpus: Sequence[GpuProcess]) -> dict[str, object]:
    uses: dict[int, float] = {}
    for each in on_gpus:
        if each.use_percent is not None:
            uses[each.gpu] = min(uses.get(each.gpu, 0.0) + each.use_percent, 100.0)
    memory = [each.memory_mib for each in on_gpus if each.memory_mib is not None]
    return {
        "gpus": sorted({each.gpu for each in on_gpus})[:64],
        "gpu_percent": round(max(uses.values()), 1) if uses else None,
        "gpu_memory_mib": round(sum(memory), 1) if memory else None,
    }


def _busiest_first(worker: Worker) -> tuple[float, float, float, int]:
    return (
        -(worker.gpu_percent or 0.0),
        -(worker.gpu_memory_mib or 0.0),
        -(worker.cpu_percent or 0.0),
        worker.pid,
    )

"""Busy kernels that do nothing: they wait for input, a lock, a remote service. Pure.

Folded over time like `stop_decision`, by elapsed time instead of the wall clock, so that setting
the clock makes no kernel silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...wire import IdlePolicy, Worker
from .activity import LONGEST_GAP, Signals

NOTHING_PERCENT = 3.0
"""Percent of a core on average, or of a GPU: less counts as doing nothing. A kernel that waits in
`input()` polls a hundred times a second: measured, 1.1 % of a core."""

MIN_INTERVAL = 2.0
MAX_INTERVAL = 60.0
"""Seconds. Use is measured over intervals of a twentieth of the limit, within these bounds: Linux
counts CPU time in hundredths of a second."""

MAX_WORKERS = 50
"""The maximum length of `Telemetry.workers`."""

LONGEST_STEP = 60.0
"""Seconds. A longer time between two samples counts as this long: nothing is known of the rest."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What is known of one busy kernel. Durations in seconds."""

    seconds: float = 0.0
    """How long neither it nor a GPU has done anything."""
    interval: float = 0.0
    """Length of the current interval,"""
    cpu_seconds: float = 0.0
    """CPU time of the kernel and its child processes in it,"""
    gpu: bool = False
    """and whether a GPU was in use in it."""


def follow(
    before: Mapping[str, Silence],
    signals: Signals,
    policy: IdlePolicy,
    now: datetime,
    elapsed: float,
) -> dict[str, Silence]:
    """The silences by kernel id, `elapsed` seconds after those of `before`.

    A kernel that cannot be measured, such as one on another machine, is not silent.
    """
    if not policy.silent_kernel_seconds or signals.workers is None:
        return {}
    use = _use(signals, signals.workers)
    step = min(max(elapsed, 0.0), LONGEST_STEP)
    gpu = _gpu_did_something(signals, now, max(timedelta(seconds=step), LONGEST_GAP))
    # If more workers exist than are reported, the use of a missing one is unknown.
    unreported = 0.0 if len(signals.workers) < MAX_WORKERS else None
    silences = {}
    for kernel in signals.kernels:
        percent = use.get(kernel.id, unreported)
        if kernel.execution_state == "busy" and kernel.pid is not None and percent is not None:
            was = before.get(kernel.id, Silence())
            silences[kernel.id] = _after(was, percent, gpu, step, policy)
    return silences


def _use(signals: Signals, workers: Sequence[Worker]) -> dict[str, float | None]:
    """Percent of a core by kernel id; None where the kernel's use is unknown.

    It is unknown if it holds memory of a GPU whose use the driver does not report (GPU slices).
    """
    return {
        each.kernel_id: None if each.gpus and not signals.gpu else each.cpu_percent
        for each in workers
        if each.kernel_id
    }


def counted_out(silences: Mapping[str, Silence], policy: IdlePolicy) -> dict[str, float]:
    """Kernels silent for too long to count as work -> seconds since they stopped counting."""
    limit = policy.silent_kernel_seconds
    return {
        kernel_id: silence.seconds - limit
        for kernel_id, silence in silences.items()
        if limit and silence.seconds >= limit
    }


def _after(was: Silence, percent: float, gpu: bool, step: float, policy: IdlePolicy) -> Silence:
    interval, cpu = was.interval + step, was.cpu_seconds + percent / 100 * step
    gpu = was.gpu or gpu
    if interval < min(max(policy.silent_kernel_seconds / 20, MIN_INTERVAL), MAX_INTERVAL):
        return Silence(was.seconds, interval, cpu, gpu)
    did_something = gpu or cpu >= NOTHING_PERCENT / 100 * interval
    return Silence(0.0 if did_something else was.seconds + interval)


def _gpu_did_something(signals: Signals, now: datetime, lately: timedelta) -> bool:
    return any(
        timedelta() <= now - reading.at <= lately and reading.percent >= NOTHING_PERCENT
        for reading in signals.gpu
    )

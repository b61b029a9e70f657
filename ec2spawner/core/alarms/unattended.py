"""Whether a GPU works for a program that belongs to no kernel and no terminal. Pure.

The agent decides this: the names of programs and notebooks do not leave the instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...wire import KernelState, Telemetry, Worker

MIN_GPU_PERCENT: Final = 5.0
"""Use below this is a driver's or a display's own, whatever the idle policy counts as work."""

MIN_WORKER_PERCENT: Final = 1.0
"""A worker with less only holds memory on the GPU."""

HIDDEN: Final = 0
"""Process id of a program in another namespace: which kernel or terminal started it is unknown."""


def is_unattended(
    telemetry: Telemetry | None, kernels: Sequence[KernelState] | None, busy_percent: float
) -> bool | None:
    """Whether a program uses a busy GPU on which no kernel and no terminal works.

    None while it is unknown: without `kernels` or the process id of one, a program may be a kernel.
    A GPU counts as busy from `busy_percent` (0-100) on.
    """
    if telemetry is None or telemetry.gpu_source == "none" or kernels is None:
        return None
    if any(kernel.pid is None for kernel in kernels):
        return None
    found = set(_by_gpu(telemetry, max(busy_percent, MIN_GPU_PERCENT)))
    return True if True in found else None if None in found or not found else False


def _by_gpu(telemetry: Telemetry, threshold: float) -> Iterator[bool | None]:
    for gpu in telemetry.gpus:
        if gpu.use_percent is None:
            yield None
        elif gpu.use_percent < threshold:
            yield False
        else:
            on_it = [each for each in telemetry.workers if gpu.index in each.gpus]
            yield _is_a_program(on_it)


def _is_a_program(workers: Sequence[Worker]) -> bool | None:
    """Whether a busy GPU with these workers on it is used by programs only."""
    working = [
        each
        for each in workers
        if each.gpu_percent is None or each.gpu_percent >= MIN_WORKER_PERCENT
    ]
    if any(each.kind != "program" for each in working):
        return False
    return True if any(each.pid != HIDDEN for each in working) else None

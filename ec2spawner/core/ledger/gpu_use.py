"""How much of their time GPUs worked, by day: folded from what heartbeats report. Pure.

What nobody measured is in neither of the sums, so their ratio is the use of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from statistics import fmean
from typing import Final, NamedTuple

from ...wire import Telemetry
from .cost_rows import CostRow, Purpose, Resource

MAX_GAP_SECONDS: Final = 300.0
"""A sample speaks for the time since the one before it, but for no more than this: heartbeats are
held for a minute at most."""

_ORDER: Final = {Purpose.USED: 0, Purpose.IDLE: 1, Purpose.OVERHEAD: 2}


class GpuUse(NamedTuple):
    """The GPUs of one lease on one day. In GPU-microseconds."""

    day: date
    """In the hub's time zone."""
    measured: int
    busy: int


def gpu_percent(telemetry: Telemetry | None) -> float | None:
    """Use of the GPUs in percent, on average; None if none is measured."""
    gpus = telemetry.gpus if telemetry else []
    known = [gpu.use_percent for gpu in gpus if gpu.use_percent is not None]
    return fmean(known) if known else None


def add_use(
    uses: Sequence[GpuUse], day: date, percent: float, gpu_microseconds: int
) -> tuple[GpuUse, ...]:
    """With a sample that speaks for so much GPU time, on the last day or a later one."""
    *past, last = uses or (GpuUse(day, 0, 0),)
    if last.day != day:
        past, last = [*past, last], GpuUse(day, 0, 0)
    busy = round(gpu_microseconds * percent / 100)
    return (*past, GpuUse(day, last.measured + gpu_microseconds, last.busy + busy))


def with_gpu_use(rows: Sequence[CostRow], uses: Iterable[GpuUse]) -> tuple[CostRow, ...]:
    """The lines of a lease, of each day one with the use of its GPUs: time of use if there is
    any."""
    result = list(rows)
    for use in uses:
        places = [
            place
            for place, row in enumerate(result)
            if row.day == use.day and row.resource is Resource.INSTANCE and row.gpus
        ]
        if places:
            best = min(places, key=lambda place: _ORDER[result[place].purpose])
            result[best] = replace(result[best], gpu_measured=use.measured, gpu_busy=use.busy)
    return tuple(result)

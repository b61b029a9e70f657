"""Sums of the ledger folded into lines for people: cost with its parts, savings and hours. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from . import exact
from .cost_rows import CostSum, Dimension, Purpose, merge_sums

MICROSECONDS_PER_HOUR: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of a report. Amounts in 1e-9 USD."""

    key: tuple[str, ...]
    """Values of its dimensions, empty where there is none, such as the user of overhead."""
    nano_usd: int
    """As far as prices are known; the sum of the next three."""
    used: int
    idle: int
    overhead: int
    saved: int
    """Against on-demand prices, by spot and discounts; negative where it cost more."""
    hours: float
    """Of instances."""
    gpu_hours: float
    unknown: int
    """Ledger entries whose price is unknown: with any, the amounts are lower bounds."""
    gpu_measured: float = 0.0
    """GPU-hours in which the use of GPUs was measured."""
    gpu_busy: float = 0.0
    """Those in which the GPUs worked."""


AMOUNTS: Final = (
    "usd",
    "used_usd",
    "idle_usd",
    "overhead_usd",
    "saved_usd",
    "instance_hours",
    "gpu_hours",
    "unknown_prices",
    "gpu_measured_hours",
    "gpu_busy_hours",
)
"""The columns of `amounts`."""


def amounts(line: CostLine) -> tuple[float | None, ...]:
    """The figures of a line for programs: USD to the last of nine decimals, hours to a few
    milliseconds. The cost is None where no price is known."""
    parts = (line.used, line.idle, line.overhead, line.saved)
    return (
        None if line.unknown and not line.nano_usd else round(exact.usd(line.nano_usd), 9),
        *(round(exact.usd(part), 9) for part in parts),
        round(line.hours, 6),
        round(line.gpu_hours, 6),
        line.unknown,
        round(line.gpu_measured, 6),
        round(line.gpu_busy, 6),
    )


def cost_lines(
    sums: Iterable[CostSum], dimensions: Sequence[Dimension], wanted: Sequence[Dimension]
) -> list[CostLine]:
    """A line for each value of `wanted`, ordered by key. `sums` are by `dimensions`, which have
    those and the purpose."""
    parts: defaultdict[tuple[str, ...], dict[str, CostSum]] = defaultdict(dict)
    for each in folded(sums, dimensions, [*wanted, Dimension.PURPOSE]):
        *key, purpose = each.key
        parts[tuple(key)][purpose] = each
    return [_line(key, parts[key]) for key in sorted(parts)]


def dearest_first(lines: Iterable[CostLine], wanted: Sequence[Dimension]) -> list[CostLine]:
    """By key where there is a line for each day, else by cost."""
    if Dimension.DAY in wanted:
        return sorted(lines, key=lambda line: line.key)
    return sorted(lines, key=lambda line: (-line.nano_usd, line.key))


def folded(
    sums: Iterable[CostSum], dimensions: Sequence[Dimension], wanted: Sequence[Dimension]
) -> tuple[CostSum, ...]:
    """Sums by some of their dimensions, ordered by key."""
    places = [dimensions.index(each) for each in wanted]
    return merge_sums(
        each._replace(key=tuple(each.key[place] for place in places)) for each in sums
    )


def _line(key: tuple[str, ...], by_purpose: Mapping[str, CostSum]) -> CostLine:
    def of(purpose: Purpose) -> int:
        return by_purpose[purpose].nano_usd if purpose in by_purpose else 0

    several = by_purpose.values()
    return CostLine(
        key=key,
        nano_usd=sum(each.nano_usd for each in several),
        used=of(Purpose.USED),
        idle=of(Purpose.IDLE),
        overhead=of(Purpose.OVERHEAD),
        saved=sum(each.on_demand_nano_usd - each.comparable_nano_usd for each in several),
        hours=sum(each.microseconds for each in several) / MICROSECONDS_PER_HOUR,
        gpu_hours=sum(each.gpu_microseconds for each in several) / MICROSECONDS_PER_HOUR,
        unknown=sum(each.unknown for each in several),
        gpu_measured=sum(each.gpu_measured for each in several) / MICROSECONDS_PER_HOUR,
        gpu_busy=sum(each.gpu_busy for each in several) / MICROSECONDS_PER_HOUR,
    )

"""Amounts that limits and pages count by day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import reduce

from . import exact
from .cost import bounds, lacking
from .cost_rows import CostRow, CostSum, Resource
from .exact import TICKS, price_units
from .local_days import split_by_day
from .segments import Segment


@dataclass(frozen=True, slots=True)
class Amount:
    """What was spent and used."""

    nano_usd: int = 0
    """In 1e-9 USD, as far as prices are known or, for limits, assumed."""
    gpu_microseconds: float = 0.0
    """Time of instances, times their GPUs."""
    unknown: int = 0
    """Parts whose price is unknown: with any, `nano_usd` is a lower bound. Counted, so that a part
    can be taken out of a sum again."""

    @property
    def is_known(self) -> bool:
        """Whether the price of every part is known."""
        return not self.unknown

    @property
    def usd(self) -> float | None:
        """USD; None where a part is unknown."""
        return exact.usd(self.nano_usd) if self.is_known else None

    @property
    def gpu_hours(self) -> float:
        """Hours of a GPU."""
        return self.gpu_microseconds / 3.6e9

    def __add__(self, more: Amount) -> Amount:
        return Amount(
            self.nano_usd + more.nano_usd,
            self.gpu_microseconds + more.gpu_microseconds,
            self.unknown + more.unknown,
        )


def amounts_by_day(segments: Sequence[Segment], now: datetime, place: tzinfo) -> dict[date, Amount]:
    """Day -> what the segments have cost at `now`, by the calendar of `place`.

    Ten times as fast as the ledger's lines, which say what the time was for. Each day is rounded
    by itself.
    """
    days: dict[date, list[float]] = {}
    for segment in segments:
        units = None if segment.usd_per_hour is None else price_units(segment.usd_per_hour)
        for day, start, end in split_by_day(*bounds(segment, now), place):
            sums = days.setdefault(day, [0, 0.0, 0])
            sums[0] += (units or 0) * (end - start)
            sums[1] += segment.gpus * (end - start)
            sums[2] += units is None
    for segment, missing in lacking(segments, now):
        sums = days.setdefault(segment.start.astimezone(place).date(), [0, 0.0, 0])
        known = segment.usd_per_hour is not None
        sums[0] += price_units(segment.usd_per_hour or 0.0) * missing
        sums[2] += not known
    return {
        day: Amount(int(ticks) // TICKS, gpus, int(unknown))
        for day, (ticks, gpus, unknown) in days.items()
    }


def amount_of(each: CostRow | CostSum) -> Amount:
    """The amount of a line, or of a sum of lines."""
    if isinstance(each, CostSum):
        return Amount(each.nano_usd, each.gpu_microseconds, each.unknown)
    is_instance = each.resource is Resource.INSTANCE
    gpu_microseconds = each.microseconds * each.gpus if is_instance else 0.0
    return Amount(each.nano_usd or 0, gpu_microseconds, int(each.nano_usd is None))


def total(amounts: Iterable[Amount]) -> Amount:
    """Their sum."""
    return reduce(Amount.__add__, amounts, Amount())


def add_to_day(days: dict[date, Amount], day: date, amount: Amount) -> None:
    """Add an amount to its day."""
    days[day] = days.get(day, Amount()) + amount


def between(days: Mapping[date, Amount], first: date, last: date) -> Amount:
    """The sum of the days from `first` to `last`, both included."""
    return total(amount for day, amount in days.items() if first <= day <= last)

"""Amounts that limits and pages count by day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from functools import reduce
from typing import Final

from . import exact
from .charges import assumed_rate, known_ticks
from .cost import bounds, lacking
from .cost_rows import CostRow, CostSum, Resource
from .exact import TICKS
from .local_days import split_by_day
from .segments import Segment, assumed

HOUR: Final = 3_600_000_000
"""In microseconds."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What was spent and used."""

    nano_usd: int = 0
    """In 1e-9 USD, as far as prices are known or, for limits, assumed."""
    gpu_microseconds: float = 0.0
    """Time of instances, times their GPUs."""
    unknown: int = 0
    """Parts whose price is unknown: with any, `nano_usd` is no exact sum. Counted, so that a part
    can be taken out of a sum again."""
    uncounted: int = 0
    """Parts that limits cannot assume a price for, either, because their list price is unknown:
    with any, `nano_usd` is a lower bound."""
    storage_nano_usd: int = 0
    """What of `nano_usd` is for homes and their snapshots, which cost with or without a server."""

    @property
    def is_known(self) -> bool:
        """Whether the price of every part is known."""
        return not self.unknown

    @property
    def usd(self) -> float | None:
        """USD; None where a part is unknown."""
        return exact.usd(self.nano_usd) if self.is_known else None

    @property
    def known_usd(self) -> float | None:
        """The same as far as prices are known; None where none is, or list prices are in it."""
        is_assumed = self.unknown != self.uncounted
        is_nothing = self.unknown and not self.nano_usd
        return None if is_assumed or is_nothing else exact.usd(self.nano_usd)

    @property
    def gpu_hours(self) -> float:
        """Hours of a GPU."""
        return self.gpu_microseconds / 3.6e9

    def __add__(self, more: Amount) -> Amount:
        return Amount(
            self.nano_usd + more.nano_usd,
            self.gpu_microseconds + more.gpu_microseconds,
            self.unknown + more.unknown,
            self.uncounted + more.uncounted,
            self.storage_nano_usd + more.storage_nano_usd,
        )

    def __neg__(self) -> Amount:
        return Amount(
            -self.nano_usd,
            -self.gpu_microseconds,
            -self.unknown,
            -self.uncounted,
            -self.storage_nano_usd,
        )


def amounts_by_day(segments: Sequence[Segment], now: datetime, place: tzinfo) -> dict[date, Amount]:
    """Day -> what the segments have cost at `now`, by the calendar of `place`.

    Ten times as fast as the ledger's lines, which say what the time was for. Each day is rounded
    by itself.
    """
    days: dict[date, list[float]] = {}
    for segment in segments:
        for day, start, end in split_by_day(*bounds(segment, now), place):
            _add(days, day, *known_ticks(segment, start, end), segment.gpus * (end - start))
    for segment, start, end in lacking(segments, now):
        day = segment.start.astimezone(place).date()
        _add(days, day, *known_ticks(segment, start, end), 0.0)
    return {
        day: Amount(int(ticks) // TICKS, gpus, int(unknown))
        for day, (ticks, gpus, unknown) in days.items()
    }


def assumed_by_day(segments: Sequence[Segment], now: datetime, place: tzinfo) -> dict[date, Amount]:
    """The same as limits count it: an unknown price is taken to be the list price, and stays
    unknown for all that does not judge limits."""
    days = amounts_by_day(segments, now, place)
    if all(amount.is_known for amount in days.values()):
        return days
    counted = [assumed(each) for each in segments]
    return {
        day: replace(amount, unknown=days[day].unknown, uncounted=amount.unknown)
        for day, amount in amounts_by_day(counted, now, place).items()
    }


def _add(
    days: dict[date, list[float]], day: date, ticks: int, unknown: int, gpu_microseconds: float
) -> None:
    sums = days.setdefault(day, [0, 0.0, 0])
    sums[0] += ticks
    sums[1] += gpu_microseconds
    sums[2] += unknown


def assumed_per_hour(segments: Iterable[Segment], now: datetime) -> Amount:
    """What segments use in an hour at their prices of `now`, as limits count it."""
    return total(_in_an_hour(segment, now) for segment in segments)


def _in_an_hour(segment: Segment, now: datetime) -> Amount:
    rate = assumed_rate(segment, now)
    nano_usd = round((rate or 0.0) * exact.NANO)
    return Amount(nano_usd, segment.gpus * HOUR, uncounted=int(rate is None))


def amount_of(each: CostRow | CostSum) -> Amount:
    """The amount of a line, or of a sum of lines."""
    if isinstance(each, CostSum):
        return Amount(each.nano_usd, each.gpu_microseconds, each.unknown)
    is_instance = each.resource is Resource.INSTANCE
    gpu_microseconds = each.microseconds * each.gpus if is_instance else 0.0
    return Amount(each.nano_usd or 0, gpu_microseconds, int(each.nano_usd is None))


def assumed_amount_of(each: CostRow | CostSum) -> Amount:
    """The same as limits count it, with list prices where prices are unknown."""
    amount = amount_of(each)
    if isinstance(each, CostSum):
        nano_usd = each.nano_usd + each.assumed_nano_usd
        return replace(amount, nano_usd=nano_usd, uncounted=each.uncounted)
    if each.nano_usd is not None:
        return amount
    listed = each.on_demand_nano_usd
    return replace(amount, nano_usd=listed or 0, uncounted=int(listed is None))


def total(amounts: Iterable[Amount]) -> Amount:
    """Their sum."""
    return reduce(Amount.__add__, amounts, Amount())


def add_to_day(days: dict[date, Amount], day: date, amount: Amount) -> None:
    """Add an amount to its day."""
    days[day] = days.get(day, Amount()) + amount


def between(days: Mapping[date, Amount], first: date, last: date) -> Amount:
    """The sum of the days from `first` to `last`, both included."""
    return total(amount for day, amount in days.items() if first <= day <= last)

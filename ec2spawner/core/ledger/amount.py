"""Amounts that limits and pages count by day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce

from . import exact
from .cost_rows import CostRow, CostSum, Resource


@dataclass(frozen=True, slots=True)
class Amount:
    """What was spent and used."""

    nano_usd: int = 0
    """In 1e-9 USD, as far as prices are known."""
    gpu_microseconds: float = 0.0
    """Time of instances, times their GPUs."""
    is_known: bool = True
    """False where a price is unknown: then `nano_usd` is a lower bound."""

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
            self.is_known and more.is_known,
        )


def amount_of(each: CostRow | CostSum) -> Amount:
    """The amount of a line, or of a sum of lines."""
    if isinstance(each, CostSum):
        return Amount(each.nano_usd, each.gpu_microseconds, not each.unknown)
    is_instance = each.resource is Resource.INSTANCE
    gpu_microseconds = each.microseconds * each.gpus if is_instance else 0.0
    return Amount(each.nano_usd or 0, gpu_microseconds, each.nano_usd is not None)


def total(amounts: Iterable[Amount]) -> Amount:
    """Their sum."""
    return reduce(Amount.__add__, amounts, Amount())


def add_to_day(days: dict[date, Amount], day: date, amount: Amount) -> None:
    """Add an amount to its day."""
    days[day] = days.get(day, Amount()) + amount


def between(days: Mapping[date, Amount], first: date, last: date) -> Amount:
    """The sum of the days from `first` to `last`, both included."""
    return total(amount for day, amount in days.items() if first <= day <= last)

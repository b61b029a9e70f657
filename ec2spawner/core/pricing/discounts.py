"""Prices that are agreed beforehand: Reserved Instances, Savings Plans, capacity. Pure.

AWS does not say which instance a discount went to: within an hour it covers so many of them, and
the bill has only the sum. Here the oldest come first, so that an instance keeps its price when
others are launched after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Discount:
    """So many on-demand instances of a type cost this, used or not."""

    instance_type: str
    usd_per_hour: float
    count: int
    """Instances at once that it covers."""
    until: datetime | None = None
    """UTC; None is for good."""
    zone: str = ""
    """Only there; empty is the whole region."""
    source: str = "the configured discounts"
    """Where it is from, for people."""

    def holds(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.until is None or now < self.until

    def fits(self, instance_type: str, zone: str) -> bool:
        """Whether it is for on-demand instances of this type in this zone."""
        return self.instance_type == instance_type and self.zone in ("", zone)


class Running(NamedTuple):
    """An on-demand instance that costs money."""

    instance_id: str
    instance_type: str
    zone: str
    launched_at: datetime
    """UTC."""


def covered(
    discounts: Iterable[Discount], running: Iterable[Running], now: datetime
) -> Mapping[str, Discount]:
    """Instance id -> the discount that gives it its price; the others pay the full one.

    The oldest instance chooses first, and takes a place that only its zone can use before one
    that another could use as well; among equals the cheapest. No other choice covers more.
    """
    return _given_out(discounts, running, now)[0]


def left(
    discounts: Iterable[Discount], running: Iterable[Running], now: datetime
) -> Sequence[Discount]:
    """The discounts with places that nobody uses, each with their number as its `count`.

    In the order in which instances take them: the first that `fits` is the next one's.
    """
    return _given_out(discounts, running, now)[1]


def _given_out(
    discounts: Iterable[Discount], running: Iterable[Running], now: datetime
) -> tuple[Mapping[str, Discount], Sequence[Discount]]:
    in_order = sorted((each for each in discounts if each.holds(now)), key=_preference)
    free = [each.count for each in in_order]
    given: dict[str, Discount] = {}
    for instance in sorted(running, key=lambda each: (each.launched_at, each.instance_id)):
        for place, discount in enumerate(in_order):
            if free[place] and discount.fits(instance.instance_type, instance.zone):
                free[place] -= 1
                given[instance.instance_id] = discount
                break
    unused = zip(in_order, free, strict=True)
    return given, tuple(replace(each, count=count) for each, count in unused if count)


def _preference(discount: Discount) -> tuple[bool, float, bool, float, str]:
    until = discount.until
    ends = until.timestamp() if until else 0.0
    return not discount.zone, discount.usd_per_hour, until is None, ends, discount.source

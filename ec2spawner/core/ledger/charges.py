"""What the time of a segment costs, by resource: the instance, its disks, its address. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from .cost_rows import Resource
from .exact import NANO, TICKS, microseconds, price_units
from .months import month_rate
from .segments import Segment, assumed, assumed_usd_per_hour

_HOUR = timedelta(hours=1) // timedelta.resolution


class Charge(NamedTuple):
    """What a period costs for one resource."""

    resource: Resource
    ticks: int | None
    """See `exact`; None where the price is unknown."""


def charges(segment: Segment, start: int, end: int) -> Iterator[Charge]:
    """What a period at the prices of the segment costs; instants are microseconds since 1970.

    Any two parts of a period add up to it. What a segment does not have is left out.
    """
    yield Charge(Resource.INSTANCE, price_ticks(segment.usd_per_hour, start, end))
    if segment.disk_usd_per_month != 0.0:
        yield Charge(Resource.DISK, _ticks_by_month(segment.disk_usd_per_month, start, end))
    if segment.address_usd_per_hour != 0.0:
        yield Charge(Resource.ADDRESS, price_ticks(segment.address_usd_per_hour, start, end))


def known_ticks(segment: Segment, start: int, end: int) -> tuple[int, int]:
    """The sum of what is known, and how many of the charges are unknown."""
    total = unknown = 0
    for _, ticks in charges(segment, start, end):
        total += ticks or 0
        unknown += ticks is None
    return total, unknown


class Rate(NamedTuple):
    """What a segment costs at one instant."""

    known_usd_per_hour: float | None
    """Of its instance, disks and address, those whose price is known; None if none is."""
    unknown_prices_of: tuple[Resource, ...] = ()
    """Those that have no known price: with any, the sum is a lower bound."""

    @property
    def usd_per_hour(self) -> float | None:
        """Everything together; None if any part is unknown."""
        return None if self.unknown_prices_of else self.known_usd_per_hour


NO_PRICE: Final = Rate(None, (Resource.INSTANCE,))
"""Of an instance of which nothing is known."""


def rate(segment: Segment, now: datetime) -> Rate:
    """What the segment costs at `now`."""
    # By the prices of this instant: an hour that begins in one month is not in two.
    start = microseconds(now) // _HOUR * _HOUR
    in_an_hour = list(charges(segment, start, start + _HOUR))
    ticks = sum(each.ticks or 0 for each in in_an_hour)
    unknown = tuple(each.resource for each in in_an_hour if each.ticks is None)
    return Rate(ticks / TICKS / NANO if ticks or not unknown else None, unknown)


def usd_per_hour(segment: Segment, now: datetime) -> float | None:
    """What the segment costs at `now`, everything together, in USD/hour; None if any part is
    unknown."""
    return rate(segment, now).usd_per_hour


def assumed_rate(segment: Segment, now: datetime) -> float | None:
    """The same as limits count it: what is unknown of an instance is the list price, and of its
    disks and address nothing. None if the list price is unknown as well."""
    if assumed_usd_per_hour(segment) is None:
        return None
    return rate(assumed(segment), now).known_usd_per_hour or 0.0


def price_ticks(usd_per_hour: float | None, start: int, end: int) -> int | None:
    """What a period costs at an hourly price; None where that is unknown."""
    return None if usd_per_hour is None else price_units(usd_per_hour) * (end - start)


def _ticks_by_month(price: float | None, start: int, end: int) -> int | None:
    if price is None:
        return None
    return sum(rate * (b - a) for rate, a, b in month_rate(price_units(price), start, end))

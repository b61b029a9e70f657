"""Prices that are agreed beforehand: Reserved Instances, Savings Plans, capacity. Pure.

AWS does not say which instance a discount went to: within an hour it covers so many of them, and
the bill has only the sum. Here the oldest come first, so that an instance keeps its price when
others are launched after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple


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
    since: datetime | None = None
    """UTC; None is from ever on."""

    def holds(self, now: datetime) -> bool:
        """Whether it has begun and has not expired."""
        return self.has_begun(now) and not self.has_expired(now)

    def has_begun(self, now: datetime) -> bool:
        """Whether it existed at `now` or before."""
        return self.since is None or self.since <= now

    def has_expired(self, now: datetime) -> bool:
        """Whether its end is over."""
        return self.until is not None and self.until <= now

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


GAP: Final = timedelta(seconds=1)
"""Less is no time between two discounts: a last day ends a microsecond before the next one."""


def beside(configured: Iterable[Discount], reservations: Iterable[Discount]) -> list[Discount]:
    """The reservations without the time in which a configured discount of their type holds: it
    replaces them, also where it covers no instance. One may remain in several parts."""
    remaining = list(reservations)
    for other in configured:
        remaining = [part for each in remaining for part in _without(each, other)]
    return remaining


def _without(reservation: Discount, other: Discount) -> Iterator[Discount]:
    since, until = reservation.since, reservation.until
    if reservation.instance_type != other.instance_type:
        yield reservation
        return
    if other.since is not None:
        end = other.since if until is None else min(until, other.since)
        if since is None or end - since > GAP:
            yield replace(reservation, until=end)
    if other.until is not None:
        begin = other.until if since is None else max(since, other.until)
        if until is None or until - begin > GAP:
            yield replace(reservation, since=begin)


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


def given_to_unused(
    places: Iterable[tuple[str, str, int]], unused: Iterable[Discount]
) -> list[list[tuple[int, float]]]:
    """For each of these (instance type, zone, number of places without an instance), how many of
    them each discount covers, and at which rate, USD/hour. No place of a discount is given twice.

    `unused` are what `left` returns: discounts of one zone first.
    """
    discounts = list(unused)
    free = [each.count for each in discounts]
    given: list[list[tuple[int, float]]] = []
    for instance_type, zone, number in places:
        rest, rates = number, list[tuple[int, float]]()
        for which, discount in enumerate(discounts):
            covered = min(rest, free[which])
            if covered and discount.fits(instance_type, zone):
                free[which], rest = free[which] - covered, rest - covered
                rates.append((covered, discount.usd_per_hour))
        given.append(rates)
    return given


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

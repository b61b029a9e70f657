"""What segments cost, exact to 1e-9 USD. Pure: instants and prices in, money out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from . import exact
from .exact import TICKS, microseconds, price_units
from .segments import MINIMUM, Segment

MINIMUM_MICROSECONDS: Final = MINIMUM // MINIMUM.resolution


def nano_usd(segments: Iterable[Segment], now: datetime) -> int | None:
    """Cost of the segments at `now`, in 1e-9 USD; None when any price among them is unknown.

    The one-minute minimum counts once for each instance: what its segments lack to a minute is
    charged at the price of its first.
    """
    segments = list(segments)
    ticks = 0
    for segment, lasted in [*durations(segments, now), *lacking(segments, now)]:
        if segment.usd_per_hour is None:
            return None
        ticks += price_units(segment.usd_per_hour) * lasted
    return ticks // TICKS


def usd(segments: Iterable[Segment], now: datetime) -> float | None:
    """The same in USD."""
    cost = nano_usd(segments, now)
    return None if cost is None else exact.usd(cost)


def saved_usd(
    segments: Sequence[Segment], now: datetime, on_demand: Callable[[str], float | None]
) -> float | None:
    """What the same time would have cost more on demand, in USD; negative where it is cheaper.

    `on_demand` is the price of an instance type in USD/hour. None when any price is unknown.
    """
    instead = [replace(each, usd_per_hour=on_demand(each.instance_type)) for each in segments]
    paid, full = nano_usd(segments, now), nano_usd(instead, now)
    return None if paid is None or full is None else exact.usd(full - paid)


def bounds(segment: Segment, now: datetime) -> tuple[int, int]:
    """Begin and end, or `now` while it runs, in microseconds since 1970; never a negative time."""
    start = microseconds(segment.start)
    return start, max(microseconds(segment.end or now), start)


def durations(segments: Iterable[Segment], now: datetime) -> Iterator[tuple[Segment, int]]:
    """Each segment with its microseconds."""
    for segment in segments:
        start, end = bounds(segment, now)
        yield segment, end - start


def lacking(segments: Iterable[Segment], now: datetime) -> Iterator[tuple[Segment, int]]:
    """The first segment of each instance with less than a minute, and the microseconds it lacks."""
    lasted: dict[str, int] = {}
    first: dict[str, Segment] = {}
    for segment, duration in durations(segments, now):
        first.setdefault(segment.instance_id, segment)
        lasted[segment.instance_id] = lasted.get(segment.instance_id, 0) + duration
    for instance_id, segment in first.items():
        if lasted[instance_id] < MINIMUM_MICROSECONDS:
            yield segment, MINIMUM_MICROSECONDS - lasted[instance_id]

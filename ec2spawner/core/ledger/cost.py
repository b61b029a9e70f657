"""What segments cost, exact to 1e-9 USD. Pure: instants and prices in, money out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from . import exact
from .charges import known_ticks
from .exact import TICKS, microseconds
from .segments import MINIMUM, Segment

MINIMUM_MICROSECONDS: Final = MINIMUM // MINIMUM.resolution


def nano_usd(segments: Iterable[Segment], now: datetime) -> int | None:
    """Cost of the segments at `now`, in 1e-9 USD; None when any price among them is unknown,
    of an instance, its disks or its address.

    The one-minute minimum counts once for each instance: what its segments lack to a minute is
    charged at the price of its first.
    """
    cost, unknown = known_nano_usd(segments, now)
    return None if unknown else cost


def known_nano_usd(segments: Iterable[Segment], now: datetime) -> tuple[int, int]:
    """The same as far as prices are known, and how many parts of it have an unknown price."""
    segments = list(segments)
    ticks = unknown = 0
    running = ((segment, *bounds(segment, now)) for segment in segments)
    for segment, start, end in [*running, *lacking(segments, now)]:
        known, others = known_ticks(segment, start, end)
        ticks += known
        unknown += others
    return ticks // TICKS, unknown


def usd(segments: Iterable[Segment], now: datetime) -> float | None:
    """The same in USD."""
    cost = nano_usd(segments, now)
    return None if cost is None else exact.usd(cost)


def known_usd(segments: Iterable[Segment], now: datetime) -> float | None:
    """The same as far as prices are known, in USD: a lower bound where `usd` is None. None where
    no price is known."""
    cost, unknown = known_nano_usd(segments, now)
    return exact.usd(cost) if cost or not unknown else None


def saved_usd(
    segments: Sequence[Segment], now: datetime, on_demand: Callable[[str], float | None]
) -> float | None:
    """What the same time would have cost more on demand, in USD; negative where it is cheaper.
    Disks and addresses cost the same, and need not be known.

    `on_demand` is the price of an instance type in USD/hour. None when the price of any instance
    is unknown.
    """
    bare = [replace(each, disk_usd_per_month=0.0, address_usd_per_hour=0.0) for each in segments]
    instead = [replace(each, usd_per_hour=on_demand(each.instance_type)) for each in bare]
    paid, full = nano_usd(bare, now), nano_usd(instead, now)
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


def lacking(segments: Iterable[Segment], now: datetime) -> Iterator[tuple[Segment, int, int]]:
    """The first segment of each instance with less than a minute, and what it lacks: the end of
    that minute, from when to when in microseconds since 1970."""
    lasted: dict[str, int] = {}
    first: dict[str, Segment] = {}
    for segment, duration in durations(segments, now):
        first.setdefault(segment.instance_id, segment)
        lasted[segment.instance_id] = lasted.get(segment.instance_id, 0) + duration
    for instance_id, segment in first.items():
        if lasted[instance_id] < MINIMUM_MICROSECONDS:
            start = microseconds(segment.start)
            yield segment, start + lasted[instance_id], start + MINIMUM_MICROSECONDS

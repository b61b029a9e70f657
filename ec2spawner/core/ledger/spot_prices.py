"""Segments of spot instances at the prices of EC2's history, each since EC2 says. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from ...wire import Market
from ..pricing.price_history import PricePoint
from .instance_end import FREE
from .segments import MINIMUM, Segment

History = Callable[[str, str], Sequence[PricePoint]]
"""Instance type and zone -> the known prices of their spot instances, oldest first."""


def at_spot_prices(
    segments: Sequence[Segment], history: History, source: str, now: datetime
) -> tuple[Segment, ...]:
    """The segments, those of spot instances cut where the history says that the price changed.

    It is read later than prices change, and EC2 lists some of them late, so what was recorded
    before is corrected too. Time from before the history keeps its price. The first minute of an
    instance, which is paid whole, has one price. What EC2 does not charge for stays free.

    `source` is that of the history's prices.
    """
    found: list[Segment] = []
    paid_whole: dict[str, datetime] = {}
    for segment in segments:
        whole = paid_whole.setdefault(segment.instance_id, segment.start + MINIMUM)
        is_priced = segment.market is Market.SPOT and segment.source != FREE
        points = history(segment.instance_type, segment.zone) if is_priced else ()
        for part in _cut(segment, points, whole, source, now) if points else (segment,):
            if found and found[-1] == replace(part, start=found[-1].start, end=part.start):
                found[-1] = replace(part, start=found[-1].start)
            else:
                found.append(part)
    return tuple(found)


def after_stored(
    points: Sequence[PricePoint], stored: Sequence[Segment], place: tuple[str, str]
) -> tuple[PricePoint, ...]:
    """The history of a place (instance type and zone), which reaches back some days, with the
    prices from before it that were stored of an instance there. `stored` is in order of time."""
    before = (
        PricePoint(each.start, each.usd_per_hour)
        for each in stored
        if each.market is Market.SPOT
        and each.usd_per_hour is not None
        and each.source != FREE
        and (each.instance_type, each.zone) == place
        and not (points and each.start >= points[0].at)
    )
    return (*before, *points)


def _cut(
    segment: Segment, points: Sequence[PricePoint], whole: datetime, source: str, now: datetime
) -> Iterator[Segment]:
    """The parts of a segment; `whole` is the end of its instance's first minute."""
    end = segment.end
    first = bisect_right(points, segment.start, key=_instant)
    part = _priced(segment, points[first - 1], source) if first else segment
    for point in points[first:]:
        at = max(point.at, whole)
        if point.at > now or (end is not None and at >= end):
            break
        if at > part.start:
            yield replace(part, end=at)
        part = replace(_priced(segment, point, source), start=max(at, part.start))
    yield replace(part, end=end)


def _priced(segment: Segment, point: PricePoint, source: str) -> Segment:
    return replace(segment, usd_per_hour=point.usd_per_hour, source=source)


def _instant(point: PricePoint) -> datetime:
    return point.at

"""Calendar days in the hub's time zone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from .exact import instant, microseconds


def local_day(at: datetime, place: tzinfo) -> date:
    """The calendar day of an instant there."""
    return at.astimezone(place).date()


@lru_cache(1024)
def midnight(day: date, place: tzinfo) -> datetime:
    """When a day begins there, in UTC.

    Where clocks skip midnight, the day begins when they are set; where midnight comes twice, at
    the first one.
    """
    return datetime.combine(day, time(), place).astimezone(UTC)


@lru_cache(1024)
def _day_ends(day: date, place: tzinfo) -> int:
    return microseconds(midnight(day + timedelta(days=1), place))


def split_by_day(start: int, end: int, place: tzinfo) -> Iterator[tuple[date, int, int]]:
    """The parts of a period by calendar day: (day, start, end), in microseconds since 1970."""
    while start < end:
        day = local_day(instant(start), place)
        ends = _day_ends(day, place)
        if ends <= start:  # clocks were set back over midnight: that day has ended already
            day += timedelta(days=1)
            ends = _day_ends(day, place)
        yield day, start, min(ends, end)
        start = ends

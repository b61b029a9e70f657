"""Calendar days in the hub's time zone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from .exact import instant, microseconds

FIRST_ASKABLE: Final = date(2000, 1, 1)
"""Before EC2 existed. A day that is centuries away is a slip, and leaves the range of dates."""

ASKABLE_AHEAD: Final = timedelta(days=366)
"""How far after today a range may end: such as with this year."""


def is_askable(day: date, today: date) -> bool:
    """Whether costs may be asked for from or until that day."""
    return FIRST_ASKABLE <= day <= today + ASKABLE_AHEAD


def askable(today: date) -> str:
    """The days that `is_askable` allows, for people."""
    return f"from {FIRST_ASKABLE} to {today + ASKABLE_AHEAD}"


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


QUARTER_HOUR: Final = 900_000_000
"""In microseconds. Midnights and changes of clocks are at whole quarters of an hour, UTC, in every
zone of today."""


@lru_cache(8192)
def _day_of_quarter(quarter: int, place: tzinfo) -> tuple[date, int]:
    """The calendar day of a quarter of an hour since 1970, and when that day ends, in
    microseconds."""
    day = local_day(instant(quarter * QUARTER_HOUR), place)
    ends = microseconds(midnight(day + timedelta(days=1), place))
    if ends > quarter * QUARTER_HOUR:
        return day, ends
    # Clocks were set back over midnight: that day has ended already.
    following = day + timedelta(days=1)
    return following, microseconds(midnight(following + timedelta(days=1), place))


def day_at(at: int, place: tzinfo) -> tuple[date, int]:
    """The calendar day of an instant, and when that day ends, in microseconds since 1970."""
    return _day_of_quarter(at // QUARTER_HOUR, place)


def split_by_day(start: int, end: int, place: tzinfo) -> Iterator[tuple[date, int, int]]:
    """The parts of a period by calendar day: (day, start, end), in microseconds since 1970."""
    while start < end:
        day, ends = _day_of_quarter(start // QUARTER_HOUR, place)
        yield day, start, min(ends, end)
        start = ends

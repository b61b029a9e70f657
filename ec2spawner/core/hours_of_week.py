"""Hours of the week in a time zone, and the instants at which they begin and end. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WHOLE_WEEK = 9
"""Days that contain a whole week of windows, whatever changes of the clock occur."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of the week. Minutes are counted from midnight, days from Monday."""

    days: tuple[int, ...]
    from_minute: int
    to_minute: int
    """Up to 1440. Not after `from_minute`: the hours cross midnight."""
    timezone: str
    """IANA name."""


@cache
def zone(name: str) -> ZoneInfo | None:
    """The time zone of an IANA name; None if it is not installed."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def windows(hours: Hours, start: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Begin and end of each window of these hours that ends after `start`, for a whole week.

    A window belongs to the day on which it begins, and excludes its end. When the clock changes,
    its begin and end are times of day, so its length changes too. In a time zone that is not
    installed there are none.
    """
    place = zone(hours.timezone)
    if place is None:
        return
    before = start.astimezone(place).date() - timedelta(days=1)
    is_over_midnight = hours.to_minute <= hours.from_minute
    for day in (before + timedelta(days=number) for number in range(WHOLE_WEEK + 2)):
        if day.weekday() not in hours.days:
            continue
        begin = _instant(day, hours.from_minute, place)
        end = _instant(day + timedelta(days=is_over_midnight), hours.to_minute, place)
        if begin < end and start < end:
            yield begin, end


def _instant(day: date, minute: int, place: ZoneInfo) -> datetime:
    # Within one zone, Python adds to the time of day.
    on_the_clock = datetime(day.year, day.month, day.day, tzinfo=place) + timedelta(minutes=minute)
    return on_the_clock.astimezone(UTC)

"""Hours of the week with a different idle limit, in the time zone of the users. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...wire import WorkingHours

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WHOLE_WEEK = 9
"""Days that contain a whole week of windows, whatever changes of the clock occur."""


def stop_after(idle_since: datetime, outside: float, hours: WorkingHours) -> datetime | None:
    """The first instant at which the idle time reaches the limit that applies at that instant.

    `outside` is the limit outside of these hours, in seconds; a limit of 0 is none. None is never.
    """
    limits = sorted({limit for limit in (outside, hours.server_seconds) if limit})
    for limit in limits:
        start = idle_since + timedelta(seconds=limit)
        for begin, end, allowed in _pieces(hours, outside, start):
            reached = max(begin, idle_since + timedelta(seconds=allowed))
            if allowed and (end is None or reached < end):
                return reached
    return None


@cache
def zone(name: str) -> ZoneInfo | None:
    """The time zone of an IANA name; None if it is not installed."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _pieces(
    hours: WorkingHours, outside: float, start: datetime
) -> Iterator[tuple[datetime, datetime | None, float]]:
    """From `start` on: (begin, end, limit in seconds) of the hours and of the time between them.

    For a whole week.
    """
    if not hours.days or zone(hours.timezone) is None:
        yield start, None, outside
        return
    for begin, end in _windows(hours, start):
        if start < begin:
            yield start, begin, outside
        yield max(begin, start), end, hours.server_seconds
        start = end


def _windows(hours: WorkingHours, start: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Begin and end of each window of these hours that ends after `start`, for a whole week.

    A window belongs to the day on which it begins, and excludes its end. When the clock changes,
    its begin and end are times of day, so its length changes too.
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

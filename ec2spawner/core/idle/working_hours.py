"""Hours of the week in which another idle time counts, in the time zone where people work. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...wire import WorkingHours

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WHOLE_WEEK = 9
"""Days after which everything that a week has was seen, whatever its clocks do."""


def stop_after(idle_since: datetime, outside: float, hours: WorkingHours) -> datetime | None:
    """The first instant at which nothing has worked for as long as is allowed at that instant.

    `outside` is the limit outside of these hours, in seconds; 0 on either side is no limit. None:
    never.
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
    """The time zone of an IANA name; None where this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _pieces(
    hours: WorkingHours, outside: float, start: datetime
) -> Iterator[tuple[datetime, datetime | None, float]]:
    """From `start` on: (begin, end, limit in seconds) of the hours and of what is between them.

    No longer than it takes to see everything that a week has.
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
    """Begin and end of these hours, each time that they end after `start`, for a whole week.

    A window belongs to the day on which it begins, and its end does not belong to it. Where clocks
    change, it is as long as its two ends on the clock are apart then.
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
    # Within one zone Python adds on the clock, as people do.
    on_the_clock = datetime(day.year, day.month, day.day, tzinfo=place) + timedelta(minutes=minute)
    return on_the_clock.astimezone(UTC)

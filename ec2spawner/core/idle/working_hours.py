"""Hours of the week with a different idle limit, in the time zone of the users. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ...wire import WorkingHours
from ..hours_of_week import Hours, windows, zone


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


def _pieces(
    hours: WorkingHours, outside: float, start: datetime
) -> Iterator[tuple[datetime, datetime | None, float]]:
    """From `start` on: (begin, end, limit in seconds) of the hours and of the time between them.

    For a whole week.
    """
    if not hours.days or zone(hours.timezone) is None:
        yield start, None, outside
        return
    week = Hours(tuple(hours.days), hours.from_minute, hours.to_minute, hours.timezone)
    for begin, end in windows(week, start):
        if start < begin:
            yield start, begin, outside
        yield max(begin, start), end, hours.server_seconds
        start = end

"""Since when a share of a limit has been used: each crossing is news once. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from .bounds import Bounds, Kind
from .standing import Days, used_on

DAY: Final = timedelta(days=1)


def passed_on(kind: Kind, bounds: Bounds, days: Days, today: date, percent: int) -> date | None:
    """The day on which so much of a window or a credit was passed for the last time; None of other
    limits, whose month is when they renew.

    A part of both renews at each midnight, and during a day their share only grows. So it was
    passed on the last day that began below it. The first of the month at the earliest: what was
    spent long ago is not remembered.
    """
    limit = bounds.limit(kind)
    if kind not in {Kind.WINDOW, Kind.CREDIT} or not limit:
        return None
    passed = today.replace(day=1)
    for day, used in _at_midnights(kind, bounds, days, today):
        if 100 * used // limit < percent:
            passed = day
    return passed


def _at_midnights(
    kind: Kind, bounds: Bounds, days: Days, today: date
) -> Iterator[tuple[date, int]]:
    """The days of this month, and what was used at the beginning of each."""
    day, spent = today.replace(day=1), {each: days[each].nano_usd for each in days}
    used = used_on(kind, bounds, days, day - DAY)
    window = (bounds.window_days or 1) * DAY
    while day <= today:
        if kind is Kind.CREDIT:
            used = max(used - bounds.refill, 0)
        else:
            used -= spent.get(day - window, 0)
        yield day, used
        used += spent.get(day, 0)
        day += DAY

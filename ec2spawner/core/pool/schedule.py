"""When a rule of the pool is in force, and when that changes next. Pure.

A rule begins a lead before its hours: what is bought then has booted when they begin.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ..hours_of_week import Hours, windows

MAX_LEAD: Final = timedelta(hours=6)
"""No boot takes longer; a lead that does is a measurement gone wrong."""


WEEK: Final = timedelta(days=8)
"""More than a week of any change of the clock."""


def is_in_force(hours: Hours | None, at: datetime, lead: float = 0.0) -> bool:
    """Whether these hours, begun `lead` seconds earlier, contain the instant. None is always."""
    if hours is None:
        return True
    begin = next((begin for begin, _ in windows(hours, at)), None)
    return begin is not None and begin - _lead(lead) <= at


def next_change(hours: Hours | None, at: datetime, lead: float = 0.0) -> datetime | None:
    """The first instant after `at` at which `is_in_force` answers otherwise; None if it does not
    within a week."""
    if hours is None:
        return None
    until = None
    for begin, end in windows(hours, at):
        if until is None and begin - _lead(lead) > at:
            return begin - _lead(lead)
        if until is not None and begin - _lead(lead) > until:
            return until
        until = end
    # Windows that follow each other without a gap for a week do so always.
    return until if until is not None and until < at + WEEK else None


def _lead(seconds: float) -> timedelta:
    return min(timedelta(seconds=seconds), MAX_LEAD)

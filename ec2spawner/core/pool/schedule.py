"""When a rule of the pool is in force. Pure.

A rule begins a lead before its hours: what is bought then has booted when they begin.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ..hours_of_week import Hours, windows

MAX_LEAD: Final = timedelta(hours=6)
"""No boot takes longer; a lead that does is a measurement gone wrong."""


def is_in_force(hours: Hours | None, at: datetime, lead: float = 0.0) -> bool:
    """Whether these hours, begun `lead` seconds earlier, contain the instant. None is always."""
    if hours is None:
        return True
    begin = next((begin for begin, _ in windows(hours, at)), None)
    return begin is not None and begin - _lead(lead) <= at


def _lead(seconds: float) -> timedelta:
    return min(timedelta(seconds=seconds), MAX_LEAD)

"""When a message that a destination did not accept is sent again, and when it is given up. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ..backoff import Backoff

BACKOFF: Final = Backoff(first=30.0, longest=3600.0, jitter=0.25)
"""Seconds: a server that restarts answers within a minute, and one that is down for a night is not
asked a thousand times."""

GIVEN_UP_AFTER: Final = timedelta(days=3)
"""A weekend. What is older is no news."""


def is_given_up(raised_at: datetime, now: datetime) -> bool:
    """Whether a message is too old to be sent once more."""
    return now - raised_at > GIVEN_UP_AFTER

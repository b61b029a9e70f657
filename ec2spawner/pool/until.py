"""What `--until` means: a time of today or tomorrow, or an instant. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta


class UnknownTime(ValueError):
    """It is neither; the message says what can be written."""


def instant(written: str, now: datetime) -> datetime:
    """The next instant at which the clock of `now` shows the written time, such as `18:00`; or the
    written instant, in ISO 8601, in the time zone of `now` if it names none. That is a place's, not
    an offset from UTC, which summer time would shift by an hour.

    Raises `UnknownTime`.
    """
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})", written)
    try:
        if clock is None:
            found = datetime.fromisoformat(written)
            return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
        today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
    except ValueError as error:
        raise UnknownTime(
            f"{written} is no time: write 18:00, or 2026-11-24T18:00+01:00"
        ) from error
    return today if today > now else today + timedelta(days=1)

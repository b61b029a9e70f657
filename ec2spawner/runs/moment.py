"""What `--deadline` and `--wait-until` mean: a time from now, or an instant. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ..core.text import durations
from .errors import WrongRequest


def moment(written: str, option: str, now: datetime) -> datetime:
    """So long after `now` (`8h`, `90m`, `1d12h`), or the written instant in ISO 8601, in the time
    zone of `now` if it names none. Raises `WrongRequest` for another text, and for the past."""
    text = written.strip()
    try:
        if re.fullmatch(r"[0-9.]+[a-z][0-9.a-z]*", text):
            at = now + timedelta(seconds=durations.seconds(text))
        else:
            named = datetime.fromisoformat(text)
            at = named if named.tzinfo else named.replace(tzinfo=now.tzinfo)
    except (ValueError, OverflowError) as error:
        raise WrongRequest(
            f"{option} {written}: is no time: write 8h, 90m, or 2026-11-26T08:00"
        ) from error
    if at <= now:
        raise WrongRequest(f"{option} {written}: is over: name a time to come")
    return at

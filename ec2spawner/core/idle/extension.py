"""Until when a user may ask to keep an idle server, and which of these instants change anything.

Pure. An extension never adds to an earlier one: it is an instant before which the server is not
stopped for being idle. So a choice is the instant itself, and not a duration.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ...wire import IdlePolicy, KeepChoice
from .stop_decision import stop_at

CHOICES = tuple(timedelta(hours=hours) for hours in (1, 2, 4))
"""From now, as far as the policy allows."""

ROUND_FROM = timedelta(minutes=30)
STEP = timedelta(minutes=5)
"""A choice at least so far away is a time of day in such steps, rounded down: people read it, and
it does not change with every minute."""

GAIN = 0.1
"""A choice that moves the stop by less than this share of its duration changes nothing: pressing
any key does as much."""


def keep_choices(
    policy: IdlePolicy,
    started_at: datetime,
    idle_since: datetime | None,
    extended_until: datetime | None,
    now: datetime,
) -> list[KeepChoice]:
    """What to offer at `now`, the nearest first; empty where nothing stops an idle server.

    A server that works is taken as one that falls idle now: nothing stops it sooner.
    """
    allowed = timedelta(seconds=policy.user_may_extend_seconds)
    since = idle_since or now
    ends = stop_at(policy, started_at, since, extended_until)
    if not allowed or ends is None:
        return []
    durations = [each for each in CHOICES if each <= allowed] or [allowed]
    return [
        KeepChoice(
            until=(until := _rounded(now + duration, duration)),
            changes=_later(stop_at(policy, started_at, since, until), ends, duration),
        )
        for duration in durations
    ]


def _later(kept: datetime | None, ends: datetime, duration: timedelta) -> bool:
    return kept is not None and kept - ends >= GAIN * duration


def _rounded(until: datetime, duration: timedelta) -> datetime:
    if duration < ROUND_FROM:
        return until
    return until - timedelta(seconds=until.timestamp() % STEP.total_seconds())

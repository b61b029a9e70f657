"""The extensions of an idle server that a user may choose, and which of them have an effect. Pure.

An extension is an instant before which the server is not stopped for being idle, so a choice is an
instant and not a duration: extensions do not add up.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ...wire import IdlePolicy, KeepChoice
from .stop_decision import stop_at

CHOICES = tuple(timedelta(hours=hours) for hours in (1, 2, 4))
"""From now, within the policy's bounds."""

ROUND_FROM = timedelta(minutes=30)
STEP = timedelta(minutes=5)
"""A choice at least this far away is rounded down to this step, so that the time of day is easy to
read and does not change every minute."""

GAIN = 0.1
"""A choice that moves the stop by less than this share of its duration counts as no change: any key
event does the same."""


def keep_choices(
    policy: IdlePolicy,
    started_at: datetime,
    idle_since: datetime | None,
    extended_until: datetime | None,
    now: datetime,
    limit_stop_at: datetime | None = None,
) -> list[KeepChoice]:
    """The choices at `now`, nearest first; empty if the policy stops no idle server.

    A server that is working counts as idle from now on: its earliest possible stop. No choice moves
    `limit_stop_at`, when a limit of spending or use stops it, once that is announced.
    """
    allowed = timedelta(seconds=policy.user_may_extend_seconds)
    since = idle_since or now

    def ends_with(extension: datetime | None) -> datetime | None:
        found = stop_at(policy, started_at, since, extension)
        return min(found, limit_stop_at) if found and limit_stop_at else found

    ends = ends_with(extended_until)
    if not allowed or ends is None:
        return []
    durations = [each for each in CHOICES if each <= allowed] or [allowed]
    return [
        KeepChoice(
            until=(until := _rounded(now + duration, duration)),
            changes=_later(ends_with(until), ends, duration),
        )
        for duration in durations
    ]


def _later(kept: datetime | None, ends: datetime, duration: timedelta) -> bool:
    return kept is not None and kept - ends >= GAIN * duration


def _rounded(until: datetime, duration: timedelta) -> datetime:
    if duration < ROUND_FROM:
        return until
    return until - timedelta(seconds=until.timestamp() % STEP.total_seconds())

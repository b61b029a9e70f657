"""What idle rules have saved, and what stricter ones would have saved. Pure.

An idle limit is judged by replaying it over sessions that have ended. A session's idle periods are
known. Under a limit of L, a period that lasted longer would have been cut off after L: its rest is
saved. What it had cost is its length at the session's idle price.

What the rules *have* saved cannot be measured, only estimated: a server that was stopped as idle
would have run on until its user started it again, but no longer than `FORGOTTEN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Final

FORGOTTEN: Final = timedelta(hours=12)
"""An idle server that nothing stops is assumed to be noticed by then: the next morning."""

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Session:
    """A server that has ended."""

    user: str
    server: str
    requested_at: datetime
    ended_at: datetime
    stopped_as_idle: bool
    idle: Sequence[timedelta]
    """Its idle periods."""
    idle_usd_per_hour: float | None
    """What its idle time has cost an hour, on average; None where unknown, or without any."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The sessions under one idle limit."""

    limit: timedelta
    idle_usd: float
    """What idle time would have cost."""
    saved_usd: float
    """Less than it did cost."""
    stops: int
    """Idle periods that the limit would have cut off: as many restarts, where their users came
    back."""


@dataclass(frozen=True, slots=True)
class Savings:
    """The arithmetic, of the sessions whose price is known."""

    sessions: int
    unknown: int
    """Sessions with idle time at an unknown price: they are in none of the sums."""
    idle_usd: float
    idle_stops: int
    stops_saved_usd: float
    """Estimate of what the idle stops have saved."""
    replays: tuple[Replay, ...]


def savings(sessions: Sequence[Session], limits: Iterable[timedelta], now: datetime) -> Savings:
    """What idle rules saved in these sessions, and would save with each of the limits."""
    known = [each for each in sessions if not each.idle or each.idle_usd_per_hour is not None]
    idle_stops = [each for each in known if each.stopped_as_idle]
    return Savings(
        sessions=len(known),
        unknown=len(sessions) - len(known),
        idle_usd=sum(_usd(each, sum(each.idle, timedelta())) for each in known),
        idle_stops=len(idle_stops),
        stops_saved_usd=_stops_saved(known, now),
        replays=tuple(_replay(known, limit) for limit in limits),
    )


def _replay(sessions: Sequence[Session], limit: timedelta) -> Replay:
    idle_usd = saved_usd = 0.0
    stops = 0
    for session in sessions:
        cut = [each for each in session.idle if each > limit]
        rest = sum((each - limit for each in cut), timedelta())
        stops += len(cut)
        saved_usd += _usd(session, rest)
        idle_usd += _usd(session, sum(session.idle, timedelta()) - rest)
    return Replay(limit, idle_usd, saved_usd, stops)


def _stops_saved(sessions: Sequence[Session], now: datetime) -> float:
    """Each idle stop saves until the server's next start, at most `FORGOTTEN`."""
    saved = 0.0
    ordered = sorted(sessions, key=lambda each: (each.user, each.server, each.requested_at))
    for _, group in groupby(ordered, key=lambda each: (each.user, each.server)):
        of_server = list(group)
        for session, following in pairwise([*of_server, None]):
            if session is not None and session.stopped_as_idle:
                next_start = following.requested_at if following else now
                off = max(next_start - session.ended_at, timedelta())
                saved += _usd(session, min(off, FORGOTTEN))
    return saved


def _usd(session: Session, lasted: timedelta) -> float:
    return lasted / _HOUR * (session.idle_usd_per_hour or 0.0)

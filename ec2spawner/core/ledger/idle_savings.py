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
from typing import Final, NamedTuple

from .cost_rows import CostRow, Purpose, Resource

FORGOTTEN: Final = timedelta(hours=12)
"""An idle server that nothing stops is assumed to be noticed by then: the next morning."""

_HOUR: Final = 3.6e9
"""In microseconds."""

_MICROSECOND: Final = timedelta(microseconds=1)


class Session(NamedTuple):
    """A server that has ended. A tuple: a year has tens of thousands."""

    ended_at: datetime
    is_idle_stop: bool
    idle_microseconds: Sequence[int]
    """Of each idle period."""
    idle_usd_per_hour: float | None
    """What its idle time has cost an hour, on average; None where unknown, or without any."""
    next_start: datetime | None
    """When the server was requested again after an idle stop; None if it was not."""


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
    """Sessions with idle time or an idle stop, and no known price of idle time: they are in none
    of the sums. An idle limit of about a minute leaves no idle time to price."""
    idle_usd: float
    idle_stops: int
    stops_saved_usd: float
    """Estimate of what the idle stops have saved."""
    replays: tuple[Replay, ...]


def idle_usd_per_hour(costs: Iterable[CostRow]) -> float | None:
    """What an hour of a session's idle time has cost; None where unknown, or without any."""
    spent = lasted = 0
    for row in costs:
        if row.purpose is Purpose.IDLE:
            if row.nano_usd is None:
                return None
            spent += row.nano_usd
            # Disks and address last as long as their instance: its time counts once.
            lasted += row.microseconds if row.resource is Resource.INSTANCE else 0
    return usd_per_hour(spent, lasted)


def usd_per_hour(nano_usd: int, microseconds: int) -> float | None:
    """Of what has cost so many 1e-9 USD in that time; None for no time."""
    return nano_usd / 1e9 / microseconds * _HOUR if microseconds else None


def savings(
    sessions: Iterable[Session],
    limits: Sequence[timedelta],
    now: datetime,
    never_idle: int = 0,
) -> Savings:
    """What idle rules saved in these sessions, and would save with each of the limits; `never_idle`
    is the number of further sessions that had no idle time."""
    known = unknown = idle_stops = 0
    idle_usd = stops_saved_usd = 0.0
    replayed = [(limit // _MICROSECOND, [0.0, 0]) for limit in limits]
    for ended_at, is_idle_stop, periods, price, next_start in sessions:
        if price is None and (periods or is_idle_stop):
            unknown += 1
            continue
        known += 1
        usd_per_microsecond = (price or 0.0) / _HOUR
        idle_usd += usd_per_microsecond * sum(periods)
        for limit, saved in replayed:
            for lasted in periods:
                if lasted > limit:
                    saved[0] += usd_per_microsecond * (lasted - limit)
                    saved[1] += 1
        if is_idle_stop:
            idle_stops += 1
            off = max((next_start or now) - ended_at, timedelta())
            stops_saved_usd += usd_per_microsecond * (min(off, FORGOTTEN) // _MICROSECOND)
    return Savings(
        sessions=known + never_idle,
        unknown=unknown,
        idle_usd=idle_usd,
        idle_stops=idle_stops,
        stops_saved_usd=stops_saved_usd,
        replays=tuple(
            Replay(limit, idle_usd - saved, saved, int(stops))
            for limit, (_, (saved, stops)) in zip(limits, replayed, strict=True)
        ),
    )


def total(parts: Sequence[Savings]) -> Savings:
    """The savings of several groups of sessions under the same limits, at least one."""
    return Savings(
        sessions=sum(each.sessions for each in parts),
        unknown=sum(each.unknown for each in parts),
        idle_usd=sum(each.idle_usd for each in parts),
        idle_stops=sum(each.idle_stops for each in parts),
        stops_saved_usd=sum(each.stops_saved_usd for each in parts),
        replays=tuple(
            Replay(
                limit=of_limit[0].limit,
                idle_usd=sum(each.idle_usd for each in of_limit),
                saved_usd=sum(each.saved_usd for each in of_limit),
                stops=sum(each.stops for each in of_limit),
            )
            for of_limit in zip(*(each.replays for each in parts), strict=True)
        ),
    )

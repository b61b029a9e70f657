"""Segments of time at one price -> USD. Pure: instants and prices in, money out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from ...wire import Market

MINIMUM = timedelta(seconds=60)
"""EC2 bills per second with a minimum of one minute for each instance started."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time of one instance at one price. Instants in UTC, prices in USD/hour."""

    instance_id: str
    market: Market
    usd_per_hour: float | None
    """None is unknown: it makes the sum unknown, it never counts as 0."""
    start: datetime
    end: datetime | None = None
    """None while it runs."""
    source: str = ""
    """Where the price is from, for people."""
    instance_type: str = ""
    """Empty where unknown."""


def overhead_key(launched_at: datetime, follows: str) -> str:
    """Names the time in which an instance serves no lease: one of its boots, after one lease.

    `launched_at` is EC2's, `follows` the id of the lease before, empty where there was none.
    Nothing here uses the hub's clock: reported again after that was set, the time begins
    elsewhere and is the same.
    """
    return f"{launched_at.isoformat()} {follows}".rstrip()


def usd(segments: Iterable[Segment], now: datetime) -> float | None:
    """Cost of the segments at `now`, in USD; None when any price among them is unknown.

    The one-minute minimum counts once for each instance: what its segments lack to a minute is
    charged at the price of its first.
    """
    total = 0.0
    lasted: dict[str, timedelta] = {}
    first_price: dict[str, float] = {}
    for segment in segments:
        if segment.usd_per_hour is None:
            return None
        duration = max((segment.end or now) - segment.start, timedelta())
        total += _hours(duration) * segment.usd_per_hour
        lasted[segment.instance_id] = lasted.get(segment.instance_id, timedelta()) + duration
        first_price.setdefault(segment.instance_id, segment.usd_per_hour)
    for instance_id, duration in lasted.items():
        total += _hours(max(MINIMUM - duration, timedelta())) * first_price[instance_id]
    return total


def usd_between(
    segments: Iterable[Segment], now: datetime, since: datetime, until: datetime
) -> float | None:
    """What of the segments' cost at `now` falls into the time from `since` up to `until`, in USD.

    None when the price of a part of it is unknown. Periods that touch add up to `usd`: what an
    instance lacks to its minute counts in the period in which the instance began.
    """
    total = 0.0
    lasted: dict[str, timedelta] = {}
    begun: dict[str, Segment] = {}
    for segment in segments:
        end = max(segment.end or now, segment.start)
        begun.setdefault(segment.instance_id, segment)
        lasted[segment.instance_id] = (
            lasted.get(segment.instance_id, timedelta()) + end - segment.start
        )
        part = min(end, until) - max(segment.start, since)
        if part > timedelta():
            if segment.usd_per_hour is None:
                return None
            total += _hours(part) * segment.usd_per_hour
    for instance_id, first in begun.items():
        lacking = MINIMUM - lasted[instance_id]
        if lacking > timedelta() and since <= first.start < until:
            if first.usd_per_hour is None:
                return None
            total += _hours(lacking) * first.usd_per_hour
    return total


def usd_by_day(
    segments: Iterable[Segment], now: datetime, since: datetime
) -> dict[date, float | None]:
    """Day in UTC -> what of the segments' cost at `now` falls into it, from the day of `since` on.

    None is unknown; days without any are left out.
    """
    segments = list(segments)
    if not segments:
        return {}
    day = midnight(max(since, min(each.start for each in segments)))
    last = max(max(each.end or now, each.start) for each in segments)
    days: dict[date, float | None] = {}
    while day <= last:
        following = day + timedelta(days=1)
        spent = usd_between(segments, now, day, following)
        if spent != 0:
            days[day.date()] = spent
        day = following
    return days


def add_days(days: dict[date, float | None], more: Mapping[date, float | None]) -> None:
    """Add the second to the first; what is unknown in one is unknown in the sum."""
    for day, spent in more.items():
        days[day] = total([days.get(day, 0.0), spent])


def total(amounts: Iterable[float | None]) -> float | None:
    """Their sum in USD; None when one of them is unknown."""
    known = 0.0
    for each in amounts:
        if each is None:
            return None
        known += each
    return known


def midnight(instant: datetime) -> datetime:
    """The beginning of that day, in UTC."""
    day = instant.astimezone(UTC)
    return day.replace(hour=0, minute=0, second=0, microsecond=0)


def saved_usd(
    segments: Sequence[Segment], now: datetime, on_demand: Callable[[str], float | None]
) -> float | None:
    """What the same time would have cost more on demand, in USD; negative where it is cheaper.

    `on_demand` is the price of an instance type in USD/hour. None when any price is unknown.
    """
    instead = [replace(each, usd_per_hour=on_demand(each.instance_type)) for each in segments]
    paid, full = usd(segments, now), usd(instead, now)
    return None if paid is None or full is None else full - paid


def paid_until(segments: Sequence[Segment], now: datetime) -> datetime:
    """Up to when `usd` has counted: later than `now` within the minimum of the running instance.

    Who adds time to a sum by its price begins here, or a minute's worth would count twice.
    """
    if not segments or segments[-1].end is not None:
        return now
    running = segments[-1].instance_id
    return max(now, next(s.start for s in segments if s.instance_id == running) + MINIMUM)


def reprice(
    segments: Sequence[Segment], now: datetime, usd_per_hour: float, source: str
) -> tuple[Segment, ...]:
    """The segments with a new price from `now` on; unchanged where the price is the same.

    An unknown price of the running segment is filled in backwards: the machine has cost this
    all along, we merely learned it late.
    """
    if not segments or segments[-1].end is not None:
        return tuple(segments)
    *past, current = segments
    if current.usd_per_hour is None:
        return (*past, replace(current, usd_per_hour=usd_per_hour, source=source))
    if current.usd_per_hour == usd_per_hour:
        return tuple(segments)
    return (
        *past,
        replace(current, end=max(now, current.start)),
        replace(current, usd_per_hour=usd_per_hour, source=source, start=max(now, current.start)),
    )


def close(segments: Sequence[Segment], now: datetime) -> tuple[Segment, ...]:
    """The segments with the running one ended at `now`."""
    return tuple(
        replace(segment, end=max(now, segment.start)) if segment.end is None else segment
        for segment in segments
    )


def digits(usd: float) -> str:
    """`0.083`, `0.19`, `24.48`, `113`: three digits where it is cheap, no cents where dear.

    A price that is not zero never looks like it.
    """
    if usd < 0.1:
        return f"{usd:.3f}"
    return f"{usd:.2f}" if usd < 100 else f"{usd:.0f}"


def price_words(usd_per_hour: float) -> str:
    """`$0.53/h`, `$0.083/h`."""
    return f"${digits(usd_per_hour)}/h"


def _hours(duration: timedelta) -> float:
    return duration.total_seconds() / 3600

"""Segments: periods of an instance at one price, and how they begin, change and end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...wire import Market

MINIMUM: Final = timedelta(seconds=60)
"""EC2 bills per second with a minimum of one minute for each instance started."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A period of one instance at one price. Instants in UTC, prices in USD/hour."""

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
    zone: str = ""
    """Availability zone; empty where unknown."""
    gpus: float = 0.0
    """GPUs of the instance; a share of one for fractional types."""
    on_demand_usd_per_hour: float | None = None
    """List price of the same type in the same period; None where unknown."""


def assumed_usd_per_hour(segment: Segment) -> float | None:
    """Its price as limits count it, in USD/hour: where it is unknown, the list price.

    None if that is unknown as well.
    """
    known = segment.usd_per_hour
    return segment.on_demand_usd_per_hour if known is None else known


def overhead_key(launched_at: datetime, follows: str) -> str:
    """Names the time in which an instance serves no lease: one of its boots, after one lease.

    `launched_at` is EC2's, `follows` the id of the lease before, empty where there was none.
    Nothing here uses the hub's clock: reported again after that was set, the time begins
    elsewhere and is the same.
    """
    return f"{launched_at.isoformat()} {follows}".rstrip()


def paid_until(segments: Sequence[Segment], now: datetime) -> datetime:
    """Up to when the cost has counted: later than `now` within the minimum of the running instance.

    Who adds time to a sum by its price begins here, or a minute's worth would count twice.
    """
    if not segments or segments[-1].end is not None:
        return now
    running = segments[-1].instance_id
    return max(now, next(s.start for s in segments if s.instance_id == running) + MINIMUM)


def reprice(
    segments: Sequence[Segment],
    now: datetime,
    usd_per_hour: float,
    source: str,
    on_demand: float | None = None,
) -> tuple[Segment, ...]:
    """The segments with a new price from `now` on; unchanged where the price is the same.

    The first minute of an instance, which is paid whole, keeps its price.

    An unknown price of the running segment is filled in backwards: the machine has cost this
    all along, we merely learned it late. So is an unknown list price (`on_demand`, USD/hour).
    """
    if not segments or segments[-1].end is not None:
        return tuple(segments)
    *past, current = segments
    if current.on_demand_usd_per_hour is None and on_demand is not None:
        current = replace(current, on_demand_usd_per_hour=on_demand)
    if current.usd_per_hour is None:
        return (*past, replace(current, usd_per_hour=usd_per_hour, source=source))
    if current.usd_per_hour == usd_per_hour:
        return (*past, current)
    since = max(paid_until(segments, now), current.start)
    return (
        *past,
        replace(current, end=since),
        replace(current, usd_per_hour=usd_per_hour, source=source, start=since),
    )


def close(segments: Sequence[Segment], now: datetime) -> tuple[Segment, ...]:
    """The segments with the running one ended at `now`."""
    return tuple(
        replace(segment, end=max(now, segment.start)) if segment.end is None else segment
        for segment in segments
    )


def until(segments: Sequence[Segment], instant: datetime) -> tuple[Segment, ...]:
    """What of the segments was before `instant`."""
    return tuple(
        replace(segment, end=min(segment.end or instant, instant))
        for segment in segments
        if segment.start < instant
    )

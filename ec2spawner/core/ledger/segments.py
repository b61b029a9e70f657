"""Segments: periods of an instance at one price, and how they begin, change and end. Pure.

With the instance come its disks and its public address: they exist for the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...wire import Market

MINIMUM: Final = timedelta(seconds=60)
"""EC2 bills per second with a minimum of one minute for each instance started, and EBS for each
volume (AWS's EC2 and EBS price pages). Of addresses the same is assumed: AWS names an hourly price
only."""

ADDRESS_LISTED_WITHIN: Final = timedelta(seconds=60)
"""EC2 lists an instance as running before its public address, by seconds."""

OverheadKey = tuple[str, str]
"""Id of an instance, and the name of a time in which it served no lease: see `overhead_key`."""


DISKS_OF_STOPPED: Final = "disks after "
"""Begins the name of overhead for the disks of a stopped instance; the id of the lease after which
it was kept follows."""


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
    disk_usd_per_month: float | None = 0.0
    """Of its own disks, in USD a month: root disk and data sets, not the home. None is unknown."""
    address_usd_per_hour: float | None = 0.0
    """Of its public IPv4 address; 0 without one, None is unknown."""


def assumed_usd_per_hour(segment: Segment) -> float | None:
    """Its price as limits count it, in USD/hour: where it is unknown, the list price.

    None if that is unknown as well.
    """
    known = segment.usd_per_hour
    return segment.on_demand_usd_per_hour if known is None else known


def assumed(segment: Segment) -> Segment:
    """The segment at the prices at which limits count it."""
    price = assumed_usd_per_hour(segment)
    return segment if segment.usd_per_hour == price else replace(segment, usd_per_hour=price)


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
    segments: Sequence[Segment], now: datetime, prices: Segment, past: Segment | None = None
) -> tuple[Segment, ...]:
    """The segments with the prices of `prices` from `now` on; unchanged where they are the same.

    Those that `prices` does not know stay. The first minute of an instance, which is paid whole,
    keeps its prices.

    An unknown price is filled in backwards, in all segments of the running instance: it has cost
    this all along, we merely learned it late. So is an unknown list price, which never changes
    else. An address that is listed late has been there from the beginning, too. `past` has the
    instance's price without the rate of a discount that has begun since its first segment of
    unknown price; by default it is that of `prices`.
    """
    if not segments or segments[-1].end is not None:
        return tuple(segments)
    segments = _with_late_address(segments, now, prices)
    *ended, current = filled_in(segments, past or prices)
    changed = current
    if prices.usd_per_hour not in (None, current.usd_per_hour):
        changed = replace(changed, usd_per_hour=prices.usd_per_hour, source=prices.source)
    if prices.disk_usd_per_month not in (None, current.disk_usd_per_month):
        changed = replace(changed, disk_usd_per_month=prices.disk_usd_per_month)
    if prices.address_usd_per_hour not in (None, current.address_usd_per_hour):
        changed = replace(changed, address_usd_per_hour=prices.address_usd_per_hour)
    if changed == current:
        return (*ended, current)
    since = max(paid_until(segments, now), current.start)
    return (*ended, replace(current, end=since), replace(changed, start=since))


def _with_late_address(
    segments: Sequence[Segment], now: datetime, prices: Segment
) -> Sequence[Segment]:
    """The segments with an address that the first listings of the running instance lacked."""
    running = segments[-1].instance_id
    since = next(each.start for each in segments if each.instance_id == running)
    if not prices.address_usd_per_hour or now - since > ADDRESS_LISTED_WITHIN:
        return segments
    return [
        replace(each, address_usd_per_hour=prices.address_usd_per_hour)
        if each.instance_id == running and each.address_usd_per_hour == 0.0
        else each
        for each in segments
    ]


def with_known_prices(segment: Segment, known: Iterable[Segment]) -> Segment:
    """The segment with what it does not know from `known`, the first of them that knows it."""
    for each in known:
        if segment.usd_per_hour is None:
            segment = replace(segment, usd_per_hour=each.usd_per_hour, source=each.source)
        if segment.on_demand_usd_per_hour is None:
            segment = replace(segment, on_demand_usd_per_hour=each.on_demand_usd_per_hour)
        if segment.disk_usd_per_month is None:
            segment = replace(segment, disk_usd_per_month=each.disk_usd_per_month)
        if segment.address_usd_per_hour is None:
            segment = replace(segment, address_usd_per_hour=each.address_usd_per_hour)
    return segment


def knows_its_prices(segment: Segment) -> bool:
    """Whether `with_known_prices` would change nothing."""
    return None not in (
        segment.usd_per_hour,
        segment.on_demand_usd_per_hour,
        segment.disk_usd_per_month,
        segment.address_usd_per_hour,
    )


def filled_in(segments: Sequence[Segment], prices: Segment) -> tuple[Segment, ...]:
    """The segments with what the last one and earlier ones of its instance do not know: from each
    other, the next one first, or else from `prices`. The instance's own price is from `prices`
    alone, because that of the next segment may be a discount's, which had not begun."""
    running = [each for each in segments if each.instance_id == segments[-1].instance_id]
    if all(map(knows_its_prices, running)):  # nearly always: each pass asks for every lease
        return tuple(segments)
    known, found = prices, []
    for segment in reversed(segments):
        if segment.instance_id == segments[-1].instance_id:
            segment = with_known_prices(segment, [known])
            known = replace(segment, usd_per_hour=prices.usd_per_hour, source=prices.source)
        found.append(segment)
    return tuple(reversed(found))


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

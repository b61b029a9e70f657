"""The ledger's lines of a lease, and of time that belongs to none. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from .cost import bounds, lacking
from .cost_rows import HUB, Cause, CostRow, Purpose, Resource
from .exact import TICKS, microseconds, price_units
from .idle_spans import IdleSpan
from .local_days import split_by_day
from .segments import Segment


@dataclass(frozen=True, slots=True)
class Account:
    """To whom time is charged, and for which profile. By default to the hub, for none."""

    user: str = ""
    server: str = ""
    payer: str = HUB
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """What decides the purpose of a lease's time. Instants in UTC."""

    ready_at: datetime | None = None
    """When its notebook listened; None until then."""
    stop_requested_at: datetime | None = None
    """When its stop began; None until then."""
    has_ended: bool = False
    idle_spans: Sequence[IdleSpan] = ()


class _Part(NamedTuple):
    """A part of a line: one purpose on one day at one price."""

    segment: Segment
    day: date
    purpose: Purpose
    cause: str
    lasted: int
    """Microseconds."""
    billed: int
    """Microseconds that are paid for."""


def lease_costs(
    segments: Sequence[Segment], course: Course, account: Account, now: datetime, place: tzinfo
) -> tuple[CostRow, ...]:
    """The lines of a lease at `now`, by day at `place`. They add up to `cost.nano_usd`."""
    return _lines([*_used(segments, course, now, place), *_minimum(segments, now, place)], account)


def overhead_costs(
    segment: Segment, cause: Cause, now: datetime, place: tzinfo
) -> tuple[CostRow, ...]:
    """The lines of time that belongs to no lease: the hub's.

    Without EC2's minimum of 60 seconds: mostly a lease has paid that.
    """
    parts = [
        _Part(segment, day, Purpose.OVERHEAD, cause.value, end - start, end - start)
        for day, start, end in split_by_day(*bounds(segment, now), place)
    ]
    return _lines(parts, Account())


def _used(
    segments: Sequence[Segment], course: Course, now: datetime, place: tzinfo
) -> Iterator[_Part]:
    """The time of the segments, cut wherever its purpose changes and at each midnight."""
    starts, purposes = _purposes(course)
    for segment in segments:
        start, end = bounds(segment, now)
        while start < end:
            place_in_course = bisect_right(starts, start)
            following = starts[place_in_course] if place_in_course < len(starts) else end
            purpose, cause = purposes[place_in_course]
            for day, begin, finish in split_by_day(start, min(following, end), place):
                yield _Part(segment, day, purpose, cause, finish - begin, finish - begin)
            start = following


def _purposes(course: Course) -> tuple[list[int], list[tuple[Purpose, str]]]:
    """When the purpose changes, in microseconds since 1970, and the purposes before, between and
    after these instants: one more than instants."""
    if course.ready_at is None:
        has_failed = course.has_ended or course.stop_requested_at is not None
        cause = Cause.FAILED_START if has_failed else Cause.START
        return [], [(Purpose.OVERHEAD, cause.value)]
    ready = microseconds(course.ready_at)
    ends = (
        None
        if course.stop_requested_at is None
        else max(microseconds(course.stop_requested_at), ready)
    )
    starts = [ready]
    purposes = [(Purpose.OVERHEAD, Cause.START.value), (Purpose.USED, "")]
    for span in course.idle_spans:
        begin = max(microseconds(span.start), starts[-1])
        finish = ends if span.end is None else microseconds(span.end)
        if ends is not None:
            finish = min(finish or ends, ends)
        if finish is None:
            starts.append(begin)
            purposes.append((Purpose.IDLE, ""))
            break
        if begin < finish:
            starts += [begin, finish]
            purposes += [(Purpose.IDLE, ""), (Purpose.USED, "")]
    if ends is not None:
        starts.append(ends)
        purposes.append((Purpose.OVERHEAD, Cause.TERMINATION.value))
    return starts, purposes


def _minimum(segments: Sequence[Segment], now: datetime, place: tzinfo) -> Iterator[_Part]:
    """What instances lack to the minute that EC2 bills, on the day on which they began."""
    for segment, missing in lacking(segments, now):
        day = segment.start.astimezone(place).date()
        yield _Part(segment, day, Purpose.OVERHEAD, Cause.MINIMUM.value, 0, missing)


def _lines(parts: Iterable[_Part], account: Account) -> tuple[CostRow, ...]:
    """One line for what differs in time and price only.

    Each line gets what rounding left of those before it, so that they add up to the rounded sum.
    """
    grouped: dict[tuple[object, ...], list[_Part]] = {}
    for part in parts:
        segment = part.segment
        offer = (segment.instance_type, segment.zone, segment.market, segment.gpus)
        grouped.setdefault((part.day, *offer, part.purpose, part.cause), []).append(part)
    lines = []
    paid = listed = 0
    for group in grouped.values():
        first = group[0]
        ticks = _ticks((part.segment.usd_per_hour, part.billed) for part in group)
        full = _ticks((part.segment.on_demand_usd_per_hour, part.billed) for part in group)
        lines.append(
            CostRow(
                day=first.day,
                user=account.user,
                server=account.server,
                payer=account.payer,
                profile=account.profile,
                instance_type=first.segment.instance_type,
                zone=first.segment.zone,
                market=first.segment.market.value,
                resource=Resource.INSTANCE,
                purpose=first.purpose,
                cause=first.cause,
                microseconds=sum(part.lasted for part in group),
                gpus=first.segment.gpus,
                nano_usd=None if ticks is None else _rounded(paid, ticks),
                on_demand_nano_usd=None if full is None else _rounded(listed, full),
            )
        )
        paid += ticks or 0
        listed += full or 0
    return tuple(lines)


def _ticks(priced: Iterable[tuple[float | None, int]]) -> int | None:
    """Prices in USD/hour times microseconds, in ticks; None where a price is unknown."""
    total = 0
    for price, lasted in priced:
        if price is None:
            return None
        total += price_units(price) * lasted
    return total


def _rounded(before: int, ticks: int) -> int:
    return (before + ticks) // TICKS - before // TICKS

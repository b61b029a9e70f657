"""The ledger's lines of a lease, and of time that belongs to none. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Final, NamedTuple

from .charges import charges, price_ticks
from .cost import bounds, lacking
from .cost_rows import HUB, Cause, CostRow, Purpose, Resource
from .exact import TICKS, microseconds
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


HUBS: Final = Account()


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
    """A part of some lines: one purpose on one day at the same prices."""

    segment: Segment
    day: date
    purpose: Purpose
    cause: str
    start: int
    """When what is paid for begins, in microseconds since 1970."""
    end: int
    has_lasted: bool = True
    """False for time that is paid for and that was not."""


def lease_costs(
    segments: Sequence[Segment], course: Course, account: Account, now: datetime, place: tzinfo
) -> tuple[CostRow, ...]:
    """The lines of a lease at `now`, by day at `place`. They add up to `cost.nano_usd`."""
    return _lines([*_used(segments, course, now, place), *_minimum(segments, now, place)], account)


def overhead_costs(
    segments: Sequence[Segment],
    cause: Cause,
    now: datetime,
    place: tzinfo,
    resources: Collection[Resource] = tuple(Resource),
    account: Account = HUBS,
    *,
    is_all: bool = False,
) -> tuple[CostRow, ...]:
    """The lines of time that belongs to no lease, for these resources.

    EC2's minimum of 60 seconds is in them where the instance `is_all` nobody's: else a lease has
    paid that, or will.
    """
    parts = [
        _Part(segment, day, Purpose.OVERHEAD, cause.value, start, end)
        for segment in segments
        for day, start, end in split_by_day(*bounds(segment, now), place)
    ]
    if is_all:
        parts += _minimum(segments, now, place)
    return tuple(line for line in _lines(parts, account) if line.resource in resources)


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
                yield _Part(segment, day, purpose, cause, begin, finish)
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
    for segment, start, end in lacking(segments, now):
        day = segment.start.astimezone(place).date()
        cause = Cause.MINIMUM.value
        yield _Part(segment, day, Purpose.OVERHEAD, cause, start, end, has_lasted=False)


def _lines(parts: Iterable[_Part], account: Account) -> tuple[CostRow, ...]:
    """One line for what differs in time and price only. What has no known price has a line of its
    own, so that it makes nothing else unknown; so has what has no known list price.

    Each line gets what rounding left of those before it, so that they add up to the rounded sum.
    """
    grouped: dict[tuple[object, ...], _Line] = {}
    for part in parts:
        segment = part.segment
        offer = (segment.instance_type, segment.zone, segment.market, segment.gpus)
        listed = price_ticks(segment.on_demand_usd_per_hour, part.start, part.end)
        for resource, ticks in charges(segment, part.start, part.end):
            full = listed if resource is Resource.INSTANCE else ticks
            unknown = (ticks is None, full is None)
            key = (part.day, *offer, part.purpose, part.cause, resource, *unknown)
            line = grouped.setdefault(key, _Line(part, resource))
            line.ticks = _plus(line.ticks, ticks)
            line.full = _plus(line.full, full)
            line.lasted += (part.end - part.start) * part.has_lasted
    lines = []
    paid = listed_before = 0
    for line in grouped.values():
        lines.append(line.row(account, paid, listed_before))
        paid += line.ticks or 0
        listed_before += line.full or 0
    return tuple(lines)


@dataclass(slots=True)
class _Line:
    """A line while its parts are added up."""

    first: _Part
    resource: Resource
    ticks: int | None = 0
    """See `exact`; None where a price is unknown."""
    full: int | None = 0
    """The same at the list price."""
    lasted: int = 0
    """Microseconds."""

    def row(self, account: Account, paid: int, listed: int) -> CostRow:
        """With what rounding left of so many ticks before it."""
        segment = self.first.segment
        return CostRow(
            day=self.first.day,
            user=account.user,
            server=account.server,
            payer=account.payer,
            profile=account.profile,
            instance_type=segment.instance_type,
            zone=segment.zone,
            market=segment.market.value,
            resource=self.resource,
            purpose=self.first.purpose,
            cause=self.first.cause,
            microseconds=self.lasted,
            gpus=segment.gpus if self.resource is Resource.INSTANCE else 0.0,
            nano_usd=None if self.ticks is None else _rounded(paid, self.ticks),
            on_demand_nano_usd=None if self.full is None else _rounded(listed, self.full),
        )


def _plus(some: int | None, more: int | None) -> int | None:
    return None if some is None or more is None else some + more


def _rounded(before: int, ticks: int) -> int:
    return (before + ticks) // TICKS - before // TICKS

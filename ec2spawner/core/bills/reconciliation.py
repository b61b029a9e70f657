"""The hub's record of instances against AWS's bill, and why they differ. Pure.

For each instance the difference is split into parts, each with a reason; they add up to it exactly.
Time comes first, then the price: the part of more or fewer billed seconds is valued at the price
that the hub recorded, and what remains is a difference of prices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ...wire import Market
from ..ledger.exact import TICKS, microseconds, price_units
from ..ledger.instance_end import FREE_FIRST_HOUR
from ..ledger.segments import MINIMUM, Segment
from .bill_lines import TIME, BillLine, Charge


class Reason(StrEnum):
    """Why the bill and the record differ."""

    CREDIT = "credit"
    """AWS credits and refunds."""
    TAX = "tax"
    OTHER_USAGE = "other-usage"
    """Charged to the instance, but not for its time: data transfer and the like."""
    LATE_DATA = "late-data"
    """The bill does not contain this time yet."""
    ROUNDING = "rounding"
    TIMING = "timing"
    """EC2 saw the instance start or end some seconds before or after the hub."""
    DISCOUNT = "discount"
    """A Reserved Instance, Savings Plan or negotiated rate that the hub was not configured with."""
    SPOT_PRICE = "spot-price"
    """EC2 billed another spot price than the one that the hub had read."""
    INTERRUPTED = "interrupted"
    """EC2 does not charge a spot instance that it interrupts in its first hour."""
    UNKNOWN_PRICE = "unknown-price"
    """The hub did not know the price."""
    HOURS = "hours"
    """The billed time and the recorded time differ by more than a start or stop explains."""
    NOT_BILLED = "not-billed"
    """The bill does not contain the instance."""
    UNKNOWN_INSTANCE = "unknown-instance"
    """The bill has it with this hub's tag, and the store does not know it."""
    UNEXPLAINED = "unexplained"


UNSETTLED: Final = frozenset(
    {Reason.HOURS, Reason.NOT_BILLED, Reason.UNKNOWN_INSTANCE, Reason.UNEXPLAINED}
)
"""Reasons that explain nothing: somebody should find out."""

BILL_DELAY: Final = timedelta(hours=24)
"""AWS updates its billing data at least once a day: what is younger may be incomplete."""

TIMING_LIMIT: Final = timedelta(seconds=60)
"""For each time that an instance began to run: between EC2's state and the hub's record lie a
listing, every 2 to 30 seconds, and the shutdown."""

ROUNDING_LIMIT: Final = timedelta(seconds=1)
"""For each time that an instance began to run: EC2 bills whole seconds."""

LINE_ROUNDING: Final = 1_000
"""In 1e-9 USD, for each line of the bill: exports have between six and ten decimals."""

SPOT_RATIO: Final = 2
"""EC2 moves spot prices gradually: more than twice or less than half of the recorded price is left
unexplained."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to `end`, both UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a difference, in 1e-9 USD: positive where the bill is higher."""

    reason: Reason
    nano_usd: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One instance in the record and in the bill; amounts in 1e-9 USD."""

    instance_id: str
    instance_type: str
    recorded: int
    """As far as prices were known."""
    billed: int
    """Everything that the bill charges to the instance: time, other usage, credits and tax."""
    recorded_microseconds: int
    billed_microseconds: int
    parts: Sequence[Part]
    """They add up to `billed - recorded`."""

    @property
    def is_settled(self) -> bool:
        """Whether every part is explained."""
        return not any(part.reason in UNSETTLED for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The record and the bill of one period."""

    period: Period
    bill_ends: datetime | None
    """Up to when the bill has usage, UTC; None where it has none."""
    instances: Sequence[Comparison]
    """The largest unsettled difference first."""
    other_resources: Mapping[str, int]
    """Usage type -> 1e-9 USD that the bill charges to this hub's volumes and other resources."""
    account_wide: Mapping[Charge, int]
    """Credits and tax of the account that name no resource, in 1e-9 USD."""

    @property
    def parts(self) -> Sequence[Part]:
        """The sum of each reason over all instances, in the order of `Reason`."""
        sums: defaultdict[Reason, int] = defaultdict(int)
        for each in self.instances:
            for part in each.parts:
                sums[part.reason] += part.nano_usd
        return tuple(Part(reason, sums[reason]) for reason in Reason if reason in sums)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """An instance's segments within a period."""

    nano_usd: int = 0
    microseconds: int = 0
    is_priced: bool = True
    runs: int = 0
    """How often it began to run."""
    last: datetime | None = None
    market: Market | None = None
    instance_type: str = ""


def reconcile(
    segments: Iterable[Segment],
    lines: Iterable[BillLine],
    period: Period,
    *,
    hub: str,
    now: datetime,
) -> Reconciliation:
    """Compare all segments of instances that ran in the period with the bill's lines.

    Lines belong to the period in which they begin. Those of instances that are neither recorded
    nor carry the tag of this `hub` are other people's.
    """
    end = min(period.end, now)
    ours: defaultdict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        ours[segment.instance_id].append(segment)
    theirs: defaultdict[str, list[BillLine]] = defaultdict(list)
    other: defaultdict[str, int] = defaultdict(int)
    account: defaultdict[Charge, int] = defaultdict(int)
    bill_ends: datetime | None = None
    for line in lines:
        if not period.start <= line.start < period.end:
            continue
        if line.charge in TIME:
            bill_ends = max(line.end, bill_ends or line.end)
        if line.resource_id in ours or (line.hub == hub and line.resource_id.startswith("i-")):
            theirs[line.resource_id].append(line)
        elif line.hub == hub:
            other[line.usage_type or line.charge] += line.nano_usd
        elif not line.resource_id and line.charge in (Charge.CREDIT, Charge.TAX):
            account[line.charge] += line.nano_usd
    limits = Period(period.start, max(end, period.start))
    in_bill = Period(limits.start, min(bill_ends or limits.start, limits.end))
    found = [
        _compare(
            instance_id, ours.get(instance_id, ()), theirs.get(instance_id, ()), limits, in_bill
        )
        for instance_id in {*ours, *theirs}
    ]
    return Reconciliation(
        period=period,
        bill_ends=bill_ends,
        instances=sorted((each for each in found if _concerns(each)), key=_importance),
        other_resources=dict(sorted(other.items())),
        account_wide=dict(account),
    )


def _concerns(each: Comparison) -> bool:
    return bool(each.recorded_microseconds or each.billed_microseconds or each.billed)


def _importance(each: Comparison) -> tuple[int, int, str]:
    unsettled = sum(abs(part.nano_usd) for part in each.parts if part.reason in UNSETTLED)
    return -unsettled, -abs(each.billed - each.recorded), each.instance_id


def _compare(
    instance_id: str,
    segments: Sequence[Segment],
    lines: Sequence[BillLine],
    period: Period,
    billed_period: Period,
) -> Comparison:
    all_of_it, in_bill = _recorded(segments, period), _recorded(segments, billed_period)
    time = [line for line in lines if line.charge in TIME]
    parts: dict[Reason, int] = defaultdict(int)
    for line in lines:
        if line.charge not in TIME:
            parts[Reason(line.charge.value)] += line.nano_usd
    parts[Reason.LATE_DATA] += in_bill.nano_usd - all_of_it.nano_usd
    for part in _parts_of_time(in_bill, time, billed_period.end):
        parts[part.reason] += part.nano_usd
    return Comparison(
        instance_id=instance_id,
        instance_type=all_of_it.instance_type or _type_in(lines),
        recorded=all_of_it.nano_usd,
        billed=sum(line.nano_usd for line in lines),
        recorded_microseconds=all_of_it.microseconds,
        billed_microseconds=sum(line.microseconds for line in time),
        parts=tuple(Part(reason, parts[reason]) for reason in Reason if parts.get(reason)),
    )


def _parts_of_time(
    recorded: _Recorded, lines: Sequence[BillLine], bill_ends: datetime
) -> list[Part]:
    """The parts of the difference of what the instance's time costs."""
    billed = sum(line.nano_usd for line in lines)
    difference = billed - recorded.nano_usd
    if recorded.market is None:
        return [Part(Reason.UNKNOWN_INSTANCE, difference)]
    if not lines:
        is_late = recorded.last is not None and recorded.last > bill_ends - BILL_DELAY
        return [Part(Reason.LATE_DATA if is_late else Reason.NOT_BILLED, difference)]
    if not recorded.is_priced:
        return [Part(Reason.UNKNOWN_PRICE, difference)]
    brief = recorded.microseconds <= FREE_FIRST_HOUR // timedelta(microseconds=1)
    if not billed and recorded.market is Market.SPOT and brief:
        return [Part(Reason.INTERRUPTED, difference)]
    of_time = _value_of_time(recorded, lines)
    return [
        Part(_reason_of_time(recorded, lines, bill_ends), of_time),
        *_parts_of_price(recorded, lines, of_time),
    ]


def _value_of_time(recorded: _Recorded, lines: Sequence[BillLine]) -> int:
    """The seconds that were billed more, at the recorded price."""
    if not recorded.microseconds:
        return 0
    more = sum(line.microseconds for line in lines) - recorded.microseconds
    return recorded.nano_usd * more // recorded.microseconds


def _reason_of_time(recorded: _Recorded, lines: Sequence[BillLine], bill_ends: datetime) -> Reason:
    more = sum(line.microseconds for line in lines) - recorded.microseconds
    runs = max(recorded.runs, 1)
    if abs(more) <= _microseconds_of(ROUNDING_LIMIT) * runs:
        return Reason.ROUNDING
    if abs(more) <= _microseconds_of(TIMING_LIMIT) * runs:
        return Reason.TIMING
    if more < 0 and recorded.last is not None and recorded.last > bill_ends - BILL_DELAY:
        return Reason.LATE_DATA
    return Reason.HOURS


def _parts_of_price(recorded: _Recorded, lines: Sequence[BillLine], of_time: int) -> list[Part]:
    """What remains after the difference of time."""
    billed = sum(line.nano_usd for line in lines)
    expected = recorded.nano_usd + of_time
    rounding = LINE_ROUNDING * len(lines)
    if abs(billed - expected) <= rounding:
        return [Part(Reason.ROUNDING, billed - expected)]
    if any(line.charge is Charge.DISCOUNTED for line in lines):
        return [Part(Reason.DISCOUNT, billed - expected)]
    if recorded.market is Market.SPOT:
        plausible = expected <= SPOT_RATIO * billed and billed <= SPOT_RATIO * expected
        reason = Reason.SPOT_PRICE if plausible else Reason.UNEXPLAINED
        return [Part(reason, billed - expected)]
    listed = [line.list_nano_usd for line in lines if line.list_nano_usd is not None]
    if len(listed) < len(lines) or sum(listed) <= billed:
        return [Part(Reason.UNEXPLAINED, billed - expected)]
    at_list = sum(listed) - expected
    reason = Reason.ROUNDING if abs(at_list) <= rounding else Reason.UNEXPLAINED
    return [Part(Reason.DISCOUNT, billed - sum(listed)), Part(reason, at_list)]


def _recorded(segments: Sequence[Segment], period: Period) -> _Recorded:
    """What of an instance's segments falls into the period, with EC2's minimum of a minute."""
    if not segments:
        return _Recorded()
    in_order = sorted(segments, key=lambda each: each.start)
    since, until = microseconds(period.start), microseconds(period.end)
    ticks = total = runs = lasted = 0
    is_priced = True
    last: datetime | None = None
    for segment in in_order:
        start = microseconds(segment.start)
        end = max(microseconds(segment.end), start) if segment.end else max(until, start)
        lasted += end - start
        part = min(end, until) - max(start, since)
        if part <= 0:
            continue
        runs += last is None or segment.start > last
        last = segment.end or period.end
        total += part
        if segment.usd_per_hour is None:
            is_priced = False
        else:
            ticks += part * price_units(segment.usd_per_hour)
    lacking = _microseconds_of(MINIMUM) - lasted
    begun = in_order[0]
    if lacking > 0 and since <= microseconds(begun.start) < until:
        total += lacking
        ticks += lacking * price_units(begun.usd_per_hour or 0.0)
    return _Recorded(
        nano_usd=ticks // TICKS,
        microseconds=total,
        is_priced=is_priced,
        runs=runs,
        last=last,
        market=begun.market,
        instance_type=begun.instance_type,
    )


def _type_in(lines: Sequence[BillLine]) -> str:
    """Of a usage type such as `BoxUsage:g5.xlarge`."""
    return next((line.usage_type.partition(":")[2] for line in lines if line.charge in TIME), "")


def _microseconds_of(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)

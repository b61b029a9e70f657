"""How much of each discount was used in a period, and whether one more would have paid. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from ..core.ledger.exact import TICKS, microseconds, price_units
from ..core.ledger.segments import Segment
from ..core.pricing.discounts import Discount, Running, covered
from ..wire import Market


@dataclass(frozen=True, slots=True)
class DiscountUse:
    """A discount in a period. Amounts in 1e-9 USD, times in microseconds of one instance."""

    discount: Discount
    covered: int
    """Time that it covers: its instances times the part of the period in which it holds."""
    used: int
    """Time of on-demand instances that it gave their price."""
    paid_nano_usd: int
    """Its price for all of `covered`: it costs the same used or not."""
    replaced_nano_usd: int | None
    """What the used time costs on demand; None where a list price is unknown."""
    beyond: int
    """Time in which at least one more instance that it would fit ran without any discount."""
    beyond_nano_usd: int | None
    """What one such instance cost in that time; None where a price is unknown."""
    one_more_nano_usd: int
    """What one more of it would have cost in the period."""

    @property
    def unused(self) -> int:
        """Time that was paid for and not used."""
        return self.covered - self.used

    @property
    def one_more_saves_nano_usd(self) -> int | None:
        """What one more would have saved in the period; negative where it would have cost more."""
        if self.beyond_nano_usd is None:
            return None
        return self.beyond_nano_usd - self.one_more_nano_usd


@dataclass(slots=True)
class _Tally:
    used: int = 0
    beyond: int = 0
    replaced_ticks: int | None = 0
    beyond_ticks: int | None = 0


def discount_use(
    discounts: Iterable[Discount],
    segments: Iterable[Segment],
    start: datetime,
    end: datetime,
) -> tuple[DiscountUse, ...]:
    """The use of each discount from `start` up to `end`, both UTC, in their order.

    Instances take discounts as the hub assigns them when it sets their prices, see `covered`.
    """
    configured = _merged(discounts)
    concerned = _concerned(configured, segments, start, end)
    tallies = [_Tally() for _ in configured]
    for since, until, running in _intervals(configured, concerned, start, end):
        _count(configured, tallies, running, since, until)
    return tuple(
        _use(discount, tally, start, end)
        for discount, tally in zip(configured, tallies, strict=True)
    )


def _merged(discounts: Iterable[Discount]) -> list[Discount]:
    """Discounts that differ only in their number, as one."""
    counts: Counter[Discount] = Counter()
    for each in discounts:
        counts[replace(each, count=0)] += each.count
    return [replace(each, count=count) for each, count in counts.items() if count]


def _concerned(
    discounts: Sequence[Discount], segments: Iterable[Segment], start: datetime, end: datetime
) -> list[Segment]:
    """The on-demand time within the period of the types that have discounts."""
    types = {each.instance_type for each in discounts}
    within = (
        replace(each, start=max(each.start, start), end=min(each.end or end, end))
        for each in segments
        if each.market is Market.ON_DEMAND and each.instance_type in types
    )
    return sorted(
        (each for each in within if each.end is not None and each.start < each.end),
        key=lambda each: each.start,
    )


def _intervals(
    discounts: Sequence[Discount], segments: Sequence[Segment], start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, list[Segment]]]:
    """The parts of the period in which nothing changes, with what ran in each."""
    begins: defaultdict[datetime, list[int]] = defaultdict(list)
    ends: defaultdict[datetime, list[int]] = defaultdict(list)
    for place, each in enumerate(segments):
        begins[each.start].append(place)
        ends[each.end or end].append(place)
    changes = {
        instant
        for each in discounts
        for instant in (each.since, each.until)
        if instant is not None and start < instant < end
    }
    running: dict[int, Segment] = {}
    for since, until in pairwise(sorted({start, end, *begins, *ends, *changes})):
        for place in ends[since]:
            running.pop(place, None)
        running |= {place: segments[place] for place in begins[since]}
        if running:
            yield since, until, list(running.values())


def _count(
    discounts: Sequence[Discount],
    tallies: Sequence[_Tally],
    running: Sequence[Segment],
    since: datetime,
    until: datetime,
) -> None:
    duration = (until - since) // timedelta(microseconds=1)
    given = covered(
        discounts,
        [Running(x.instance_id, x.instance_type, x.zone, x.start) for x in running],
        since,
    )
    for discount, tally in zip(discounts, tallies, strict=True):
        for each in running:
            if given.get(each.instance_id) == discount:
                tally.used += duration
                tally.replaced_ticks = _plus(
                    tally.replaced_ticks, duration, each.on_demand_usd_per_hour
                )
        more = [
            each
            for each in running
            if each.instance_id not in given and discount.fits(each.instance_type, each.zone)
        ]
        if more and discount.holds(since):
            tally.beyond += duration
            tally.beyond_ticks = _plus(tally.beyond_ticks, duration, _full_price(more[0]))


def _full_price(segment: Segment) -> float | None:
    """USD/hour on demand: the hub may have given the discount to this instance."""
    listed = segment.on_demand_usd_per_hour
    return segment.usd_per_hour if listed is None else listed


def _plus(ticks: int | None, duration: int, usd_per_hour: float | None) -> int | None:
    if ticks is None or usd_per_hour is None:
        return None
    return ticks + duration * price_units(usd_per_hour)


def _use(discount: Discount, tally: _Tally, start: datetime, end: datetime) -> DiscountUse:
    holds_since = start if discount.since is None else max(start, discount.since)
    holds_until = end if discount.until is None else min(end, discount.until)
    holds = max(microseconds(holds_until) - microseconds(holds_since), 0)
    one = holds * price_units(discount.usd_per_hour)
    return DiscountUse(
        discount=discount,
        covered=holds * discount.count,
        used=tally.used,
        paid_nano_usd=one * discount.count // TICKS,
        replaced_nano_usd=_nano(tally.replaced_ticks),
        beyond=tally.beyond,
        beyond_nano_usd=_nano(tally.beyond_ticks),
        one_more_nano_usd=one // TICKS,
    )


def _nano(ticks: int | None) -> int | None:
    return None if ticks is None else ticks // TICKS

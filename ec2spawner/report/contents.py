"""The ledger's sums folded into a report. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final

from ..core.ledger.cost_rows import CostSum, Dimension, Purpose, merge_sums
from .discount_use import DiscountUse

DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "user": Dimension.USER,
    "group": Dimension.PAYER,
    "profile": Dimension.PROFILE,
    "type": Dimension.INSTANCE_TYPE,
    "zone": Dimension.ZONE,
    "day": Dimension.DAY,
    "market": Dimension.MARKET,
    "server": Dimension.SERVER,
    "resource": Dimension.RESOURCE,
    "purpose": Dimension.PURPOSE,
    "cause": Dimension.CAUSE,
}
"""What `--by` takes. A group is a payer: a lease is charged to one, however many its user is in."""

EXPIRES_SOON: Final = timedelta(days=30)
"""Discounts that end within it are pointed out: replacing one takes an approval somewhere."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report is about."""

    hub: str
    since: date
    until: date
    """The last day, inclusive; both in the hub's time zone."""
    time_zone: str
    by: Sequence[str]
    """Keys of `DIMENSIONS`."""
    user: str = ""
    """Only this user's servers; empty is everybody and the overhead of the hub."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a report. Amounts in 1e-9 USD."""

    key: tuple[str, ...]
    """Values of `Scope.by`, empty where there is none, such as the user of overhead."""
    nano_usd: int
    """As far as prices are known; the sum of the next three."""
    used: int
    idle: int
    overhead: int
    saved: int
    """Against on-demand prices, by spot and discounts; negative where it cost more."""
    hours: float
    """Of instances."""
    gpu_hours: float
    unknown: int
    """Ledger entries whose price is unknown: with any, the amounts are lower bounds."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was spent in a period."""

    scope: Scope
    made_at: datetime
    """UTC."""
    lines: Sequence[Line]
    """By day where grouped by it, else the dearest first. Their sum is `total`."""
    total: Line
    overhead: Mapping[str, int]
    """Cause -> 1e-9 USD, the largest first."""
    days: Sequence[Line]
    """One for each day with any cost, its key the day as `2026-11-23`."""
    discounts: Sequence[DiscountUse] = ()


def needed(by: Sequence[str]) -> tuple[Dimension, ...]:
    """What the ledger's sums are to be grouped by for `report_of`."""
    wanted = [DIMENSIONS[name] for name in by]
    return tuple(dict.fromkeys([*wanted, Dimension.DAY, Dimension.PURPOSE, Dimension.CAUSE]))


def report_of(
    scope: Scope,
    sums: Iterable[CostSum],
    made_at: datetime,
    discounts: Sequence[DiscountUse] = (),
) -> Report:
    """Fold sums by `needed(scope.by)`."""
    sums = tuple(sums)
    dimensions = needed(scope.by)
    wanted = [DIMENSIONS[name] for name in scope.by]
    lines = _lines(sums, dimensions, wanted)
    if Dimension.DAY not in wanted:
        lines.sort(key=lambda line: (-line.nano_usd, line.key))
    causes = {
        each.key[0]: each.nano_usd
        for each in _folded(sums, dimensions, [Dimension.CAUSE])
        if each.key[0]
    }
    return Report(
        scope=scope,
        made_at=made_at,
        lines=lines,
        total=next(iter(_lines(sums, dimensions, [])), NOTHING),
        overhead=dict(sorted(causes.items(), key=lambda each: (-each[1], each[0]))),
        days=_lines(sums, dimensions, [Dimension.DAY]),
        discounts=discounts,
    )


NOTHING: Final = Line((), 0, 0, 0, 0, 0, 0.0, 0.0, 0)
"""The sum of no lines."""


def _lines(
    sums: Iterable[CostSum], dimensions: Sequence[Dimension], wanted: Sequence[Dimension]
) -> list[Line]:
    """A line for each value of `wanted`, ordered by key."""
    parts: defaultdict[tuple[str, ...], dict[str, CostSum]] = defaultdict(dict)
    for each in _folded(sums, dimensions, [*wanted, Dimension.PURPOSE]):
        *key, purpose = each.key
        parts[tuple(key)][purpose] = each
    return [_line(key, parts[key]) for key in sorted(parts)]


def _folded(
    sums: Iterable[CostSum], dimensions: Sequence[Dimension], wanted: Sequence[Dimension]
) -> tuple[CostSum, ...]:
    places = [dimensions.index(each) for each in wanted]
    return merge_sums(
        replace(each, key=tuple(each.key[place] for place in places)) for each in sums
    )


def _line(key: tuple[str, ...], by_purpose: Mapping[str, CostSum]) -> Line:
    def of(purpose: Purpose) -> int:
        return by_purpose[purpose].nano_usd if purpose in by_purpose else 0

    several = by_purpose.values()
    return Line(
        key=key,
        nano_usd=sum(each.nano_usd for each in several),
        used=of(Purpose.USED),
        idle=of(Purpose.IDLE),
        overhead=of(Purpose.OVERHEAD),
        saved=sum(each.on_demand_nano_usd - each.comparable_nano_usd for each in several),
        hours=sum(each.microseconds for each in several) / 3.6e9,
        gpu_hours=sum(each.gpu_microseconds for each in several) / 3.6e9,
        unknown=sum(each.unknown for each in several),
    )

"""The ledger's sums folded into a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from ..core.ledger.cost_lines import CostLine, cost_lines, dearest_first, folded
from ..core.ledger.cost_rows import CostSum, Dimension
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
    is_cut: bool = False
    """Nobody chose its first day: it is the first of which Cost Explorer knows single instances."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was spent in a period."""

    scope: Scope
    made_at: datetime
    """UTC."""
    lines: Sequence[CostLine]
    """By day where grouped by it, else the dearest first. Their sum is `total`."""
    total: CostLine
    overhead: Mapping[str, int]
    """Cause -> 1e-9 USD, the largest first."""
    days: Sequence[CostLine]
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
    causes = {
        each.key[0]: each.nano_usd
        for each in folded(sums, dimensions, [Dimension.CAUSE])
        if each.key[0]
    }
    return Report(
        scope=scope,
        made_at=made_at,
        lines=dearest_first(cost_lines(sums, dimensions, wanted), wanted),
        total=next(iter(cost_lines(sums, dimensions, [])), NOTHING),
        overhead=dict(sorted(causes.items(), key=lambda each: (-each[1], each[0]))),
        days=cost_lines(sums, dimensions, [Dimension.DAY]),
        discounts=discounts,
    )


NOTHING: Final = CostLine((), 0, 0, 0, 0, 0, 0.0, 0.0, 0)
"""The sum of no lines."""

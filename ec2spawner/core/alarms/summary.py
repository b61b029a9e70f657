"""The weekly summary: use, waste and cost, by payer and by user. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from ..ledger.cost_rows import HUB, CostSum, Dimension, Purpose, merge_sums
from ..ledger.exact import usd
from ..text.untrusted import visible
from .alarm import Alarm, Kind
from .weekly import Week

BY: Final = (Dimension.PAYER, Dimension.USER, Dimension.PURPOSE)
"""The dimensions of the costs that a summary is made of."""

LISTED: Final = 20
"""Payers, and users, that a summary lists: those with the highest cost."""

MICROSECONDS_PER_HOUR: Final = 3_600_000_000

_PURPOSES: Final = {
    Purpose.USED: "used (homes and their snapshots included)",
    Purpose.IDLE: "idle",
    Purpose.OVERHEAD: "overhead (boots, failed starts, kept and surplus instances)",
}


def weekly_summary(
    week: Week, costs: Sequence[CostSum], previous: Sequence[CostSum], now: datetime
) -> Alarm:
    """The summary of a week. `costs` and the `previous` week's are summed by `BY`."""
    total, before = _total(costs), _total(previous)
    lines = [
        f"{_day(week.first)} to {_day(week.last)}. Estimated from prices, without traffic.",
        "",
        f"Cost: {_usd(total)}. The week before: {_usd(before)}.",
    ]
    lines += [
        f"- {_PURPOSES[purpose]}: {_share(each, total)}" for purpose, each in _purposes(costs)
    ]
    saved = usd(total.on_demand_nano_usd - total.comparable_nano_usd)
    if saved >= 0.01:
        lines.append(f"Spot and discounts saved {saved:,.2f} USD compared with on-demand prices.")
    if total.unknown:
        lines.append("Some prices are unknown: the sums are lower bounds.")
    payers = [each for each in _sums(costs, 0) if each[0] != HUB]
    users = [each for each in _sums(costs, 1) if each[0]]
    lines += _listed("By payer", payers, costs, 0)
    if [name for name, _ in payers] != [f"user:{name}" for name, _ in users]:
        lines += _listed("By user", users, costs, 1)
    return Alarm(
        Kind.SUMMARY,
        "hub",
        week.first.isoformat(),
        f"The GPU hub cost {_usd(total)} in the week to {week.last:%d %B %Y}",
        "\n".join(lines),
        now,
    )


def _listed(
    heading: str, found: Sequence[tuple[str, CostSum]], costs: Sequence[CostSum], place: int
) -> Iterator[str]:
    if not found:
        return
    yield from ("", f"{heading}:")
    for name, each in found[:LISTED]:
        idle = _total(c for c in costs if c.key[place] == name and c.key[2] == Purpose.IDLE)
        percent = 100 * idle.nano_usd / each.nano_usd if each.nano_usd else 0.0
        yield f"- {visible(name)}: {_usd(each)}, {_gpu_hours(each)}, {percent:.0f} % idle"
    if len(found) > LISTED:
        yield f"- and {len(found) - LISTED} more"


def _sums(costs: Iterable[CostSum], place: int) -> list[tuple[str, CostSum]]:
    """By one part of the key, the highest cost first."""
    by_name: dict[str, list[CostSum]] = {}
    for each in costs:
        by_name.setdefault(each.key[place], []).append(each)
    found = [(name, _total(some)) for name, some in by_name.items()]
    return sorted(found, key=lambda each: (-each[1].nano_usd, each[0]))


def _purposes(costs: Sequence[CostSum]) -> Iterator[tuple[Purpose, CostSum]]:
    for purpose in Purpose:
        yield purpose, _total(each for each in costs if each.key[2] == purpose)


def _total(costs: Iterable[CostSum]) -> CostSum:
    without_keys = [CostSum((), *_figures(each)) for each in costs]
    [total] = merge_sums([CostSum((), 0, 0, 0, 0, 0, 0.0), *without_keys])
    return total


def _figures(each: CostSum) -> tuple[int, int, int, int, int, float]:
    return (
        each.nano_usd,
        each.on_demand_nano_usd,
        each.comparable_nano_usd,
        each.unknown,
        each.microseconds,
        each.gpu_microseconds,
    )


def _share(some: CostSum, total: CostSum) -> str:
    percent = 100 * some.nano_usd / total.nano_usd if total.nano_usd else 0.0
    return f"{_usd(some)} ({percent:.0f} %), {_gpu_hours(some)}"


def _usd(some: CostSum) -> str:
    return f"{usd(some.nano_usd):,.2f} USD"


def _gpu_hours(some: CostSum) -> str:
    return f"{some.gpu_microseconds / MICROSECONDS_PER_HOUR:,.1f} GPU-hours"


def _day(day: object) -> str:
    return f"{day:%A %d %B %Y}"

"""The plan as a person reads it, and as a program does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from .. import terminal
from ..core.pool.forecast import MARGIN
from ..core.text.durations import in_words
from ..wire import Market
from .costs import Durations, PoolCost, Price
from .facts import Wanted
from .reservations import Reservation
from .verdicts import State, Verdict, is_enough

_MARKS = {
    State.OK: ("✓ ok", "green"),
    State.SHORT: ("✗ short", "bold red"),
    State.UNKNOWN: ("? unknown", "cyan"),
}

NARROW = 100
"""Columns of a terminal in which what is said has no room beside the names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is printed."""

    region: str
    wanted: Wanted
    verdicts: list[Verdict]
    prices: tuple[Price, ...]
    durations: Durations | None
    pool: PoolCost | None
    reservations: Sequence[Reservation]
    reserved: int = 0
    """Users for whom reserved capacity has a place."""
    store_unread: str = ""
    """Why past starts could not be read."""


def as_json(plan: Plan, rehearsal: Mapping[str, Any] | None = None) -> str:
    """One line; USD and seconds, unknown is null."""
    wanted = plan.wanted
    said: dict[str, Any] = {
        "region": plan.region,
        "profile": wanted.profile.slug,
        "users": wanted.users,
        "hours": wanted.hours,
        "at": wanted.at.isoformat() if wanted.at else None,
        "reserved": plan.reserved,
        "enough": is_enough(plan.verdicts),
        "verdicts": [asdict(each) for each in plan.verdicts],
        "costs": [_cost(each, wanted) for each in plan.prices],
        "starts": asdict(plan.durations) if plan.durations else None,
        "pool": asdict(plan.pool) if plan.pool else None,
        "reservations": [asdict(each) for each in plan.reservations],
        "rehearsal": rehearsal,
    }
    return json.dumps(said)


def _cost(price: Price, wanted: Wanted) -> dict[str, Any]:
    cheapest, most = price.usd(wanted)
    return {**asdict(price), "usd": cheapest, "usd_elsewhere": most}


def print_plan(plan: Plan, console: Console) -> None:
    """What is enough and what is short, what it costs, and what starts sooner."""
    wanted = plan.wanted
    begins = f" at {_clock(wanted.at)}" if wanted.at else ""
    title = (
        f'{wanted.users} users of "{wanted.profile.display_name}" in {plan.region}{begins}, for '
        f"{in_words(wanted.hours * 3600)}"
    )
    console.print(terminal.text(title, "bold"))
    console.print(_table(plan.verdicts, console))
    for heading, lines in (
        ("Costs", _cost_lines(plan)),
        ("Starts", _start_lines(plan)),
        ("Warm pool", _pool_lines(plan)),
    ):
        _print_section(heading, lines, console)
    for each in plan.reservations:
        price = "at an unknown price" if each.usd is None else f"{each.usd:.2f} USD"
        _print_section(each.kind, [f"{price}: {each.said}."], console)
        # In one piece, to be copied.
        console.print(terminal.text(f"  {each.command}", "italic"), soft_wrap=True)
    console.print()
    console.print(terminal.text(_summary(plan)))


def _print_section(heading: str, lines: Iterable[str], console: Console) -> None:
    console.print()
    console.print(terminal.text(heading, "bold"))
    for line in lines:
        console.print(Padding(terminal.text(line), (0, 0, 0, 2)))


def _table(found: Sequence[Verdict], console: Console) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    narrow = console.width < NARROW
    if not narrow:
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in found:
        mark, style = _MARKS[each.state]
        below = [(each.said, ""), *([(f"Fix: {each.fix}", "italic")] if each.fix else [])]
        name, said = terminal.text(each.name), terminal.styled_lines(*below)
        beside = [name.append(": ").append_text(said)] if narrow else [name, said]
        table.add_row(terminal.text(f"  {mark}", style), *beside)
    return table


def _cost_lines(plan: Plan) -> Iterator[str]:
    wanted = plan.wanted
    for price in plan.prices:
        low, high = price.usd(wanted)
        where = f" in {price.zone}" if price.zone else ""
        hourly = f"{price.usd_per_hour * wanted.users:.2f}"
        elsewhere = (
            f" (up to {price.usd_per_hour_elsewhere * wanted.users:.2f} USD/hour and {high:.2f} "
            "USD in the most expensive zone)"
            if high > low
            else ""
        )
        yield (
            f"{price.market}: {price.instance_type}{where}, {price.usd_per_hour:.3f} USD/hour "
            f"each, {hourly} USD/hour for all, {low:.2f} USD in all{elsewhere}"
        )
    if plan.reserved:
        yield (
            f"reserved: {plan.reserved} of them have a place in reserved capacity. It costs the "
            "same used or not: the on-demand price, in a Capacity Block what was paid for that"
        )
    for market in missing(plan):
        yield f"{market}: no price is known"
    yield "Estimates of instances with disk and address, without homes, traffic and tax."


def missing(plan: Plan) -> Sequence[Market]:
    """The profile's markets without a known price."""
    known = {price.market for price in plan.prices}
    return [market for market in plan.wanted.profile.markets if market not in known]


def _start_lines(plan: Plan) -> Iterator[str]:
    usual = plan.durations
    if usual is None:
        none = "the store has no start of this profile on a fresh instance in four weeks"
        yield f"Unknown: {plan.store_unread or none}."
        return
    p95 = "" if usual.p95 is None else f", 95 % within {in_words(usual.p95)}"
    yield (
        f"Of the last {usual.number} on fresh instances: half within {in_words(usual.median)}"
        f"{p95}; until the instance has booted {in_words(usual.median_to_instance)}."
    )


def _pool_lines(plan: Plan) -> Iterator[str]:
    pool, wanted = plan.pool, plan.wanted
    if pool is None:
        yield "What it would save is unknown without a price and past starts."
        return
    yield (
        f"An instance ready for each of them costs {pool.usd:.2f} USD each time and saves "
        f"{in_words(pool.saved_seconds)} of each start, which then takes "
        f"{in_words(pool.seconds)}: {pool.usd_per_hour_saved:.2f} USD for each hour that one "
        "person does not wait. It pays where their time is worth more."
    )
    yield _replacements(pool, wanted)
    if wanted.at is not None:
        yield "c.EC2Spawner.warm_pool = [" + _entry(wanted, wanted.at) + "]"


def _replacements(pool: PoolCost, wanted: Wanted) -> str:
    """What quota and addresses must have room for. The class itself is judged without it."""
    said = (
        f"Until {in_words(MARGIN.total_seconds())} after the beginning each instance that is taken "
        f"is replaced, so up to {pool.instances} exist at once:"
    )
    if pool.room_for is None:
        return f"{said} whether the quota and the addresses have room for them is unknown."
    if pool.room_for >= pool.instances:
        return f"{said} the quota and the addresses have room for them."
    fitting = pool.room_for - wanted.users
    fix = f', or write "running": {fitting}' if fitting > 0 else ", or do without a pool"
    return (
        f"{said} the {wanted.profile.markets[0]} quota and the addresses have room for "
        f"{pool.room_for}. Fix: get more of what is short{fix}."
    )


def _entry(wanted: Wanted, at: datetime) -> str:
    until = at + timedelta(seconds=MARGIN.total_seconds())
    when = f"{at:%a} {at:%H:%M}-{until:%H:%M}"
    return f'{{"profile": "{wanted.profile.slug}", "running": {wanted.users}, "when": "{when}"}}'


def _clock(at: datetime) -> str:
    return f"{at:%H:%M} on {at:%A}, {at.day} {at:%B}"


def _summary(plan: Plan) -> str:
    enough = is_enough(plan.verdicts)
    short = sum(each.state is State.SHORT for each in plan.verdicts)
    verdict = {
        True: "Everything suffices.",
        False: f"It does not suffice: {short} short.",
        None: "Nothing that could be read is short.",
    }[enough]
    return f"{verdict} Nothing was started or changed."

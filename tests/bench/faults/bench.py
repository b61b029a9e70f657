"""`faults`: every AWS action that the project calls, struck by every kind of fault.

A journey without faults is recorded first: which actions a hub's start, a server's start and stop,
their detours (`detours`) and the operator's commands call. Held beside the source, an action
that no part of the journey calls is a failure of the bench. Then each part is played again for each
of its actions and each kind of fault, once struck and struck until the fault is cleared, on real
hubs before embedded EC2s. It must end as success or in words that say what failed and what helps,
within the documented time; after two passes nothing is left over, and the next start works.

Hubs have little patience here (`fault_timeout`), and agents and notebooks that cost nothing
(`stub_agent`).
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import defaultdict, deque
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.aws_actions import Action, called_actions
from tests.bench.faults.cells import (
    COLUMNS,
    DETOURS,
    ENTRIES,
    ENTRY,
    UNPLAYED,
    Cell,
    Ended,
    Mode,
    Row,
    Scene,
    cells_of,
    rows_of,
    why_not,
)
from tests.bench.faults.commands import Commands, play_checks, play_prices
from tests.bench.faults.scenes import (
    Beginnings,
    Done,
    begin,
    play_aside,
    play_leftovers,
    play_start,
    play_stop,
    record,
)
from tests.bench.faults.site import Site
from tests.bench.figures import Figure, Goal, Result
from tests.bench.machine import describe_machine

SITES = 2
"""Hubs side by side: most of a cell is waiting."""

GOALS = {
    "hung": Goal(0),
    "leaked": Goal(0),
    "unclear": Goal(0),
    "broken": Goal(0),
    "missed": Goal(0),
    "unrecorded": Goal(0),
}

MARKS = {
    "ok": "·",
    "said": "s",
    "HUNG": "H",
    "LEAK": "L",
    "UNCLEAR": "U",
    "BROKEN": "B",
    "MISSED": "M",
}
"""`said`: it did not work, and somebody got the reason and a fix. `BROKEN`: it did not work
when the fault was gone. `MISSED`: the call was not made."""

TABLE_WIDTH = 150

FEW = 6
"""Actions that are named one by one."""

SHORT = frozenset(
    {
        (Scene.BEGIN, "DescribeSubnets", "forbidden"),
        (Scene.START, "CreateFleet", "cut-after"),
        (Scene.START, "CreateFleet", f"{ENTRY}forbidden"),
        (Scene.START, "AttachVolume", "unheard of"),
        (Scene.STOP, "TerminateInstances", "throttled"),
        (Scene.CHECK, "DescribeKeyPairs", "forbidden"),
        (Scene.PRICES, "DescribeAvailabilityZones", "unavailable"),
    }
)
"""The cells of `--short`, struck until the fault is cleared."""


PLAYED_ON_A_SERVER = {
    Scene.START: play_start,
    Scene.STOP: play_stop,
    **dict.fromkeys(DETOURS - {Scene.REAP}, play_aside),
}


@dataclass(frozen=True, slots=True)
class Found:
    rows: tuple[Row, ...]
    ended: Mapping[Cell, Ended]
    unrecorded: frozenset[Action]
    """What the source calls and no part of the journey does, but for `UNPLAYED`."""


def run(sites: int | None, short: bool, console: Console, only: str = "") -> Result:
    """Play it all, or the cells whose names match `only`; show tables, and say what was found."""
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as directory:
        count = 1 if short else sites or SITES
        found = asyncio.run(play(Path(directory), count, short, console, only))
    show(found, console)
    return Result("faults", figures_of(found), GOALS, machine)


def figures_of(found: Found) -> dict[str, Figure]:
    """The figures by their names in `DESIGN.md`, and some more."""
    ended = found.ended.values()
    words = [each.word for each in ended]
    return {
        "cells": len(words),
        "hung": words.count("HUNG"),
        "leaked": words.count("LEAK"),
        "unclear": words.count("UNCLEAR"),
        "broken": words.count("BROKEN"),
        "missed": words.count("MISSED"),
        "unrecorded": len(found.unrecorded),
        "unplayed": len(UNPLAYED),
        "ok": words.count("ok"),
        "said": words.count("said"),
        "impossible": 2 * sum(bool(why_not(row, kind)) for row, kind in _places(found.rows)),
        "actions": len({row.action for row in found.rows}),
        "slowest_s": max((each.seconds for each in ended), default=None),
    }


# --- playing ---------------------------------------------------------------------------------


async def play(directory: Path, count: int, short: bool, console: Console, only: str = "") -> Found:
    """All cells, on `count` sites."""
    async with AsyncExitStack() as running:
        sites = [Site(f"site-{number}", directory) for number in range(count)]
        for site in sites:
            running.push_async_callback(site.close)
            await site.open()
        first = sites[0]
        commands = Commands(first)
        recorded = await record(first, commands)
        rows = rows_of(recorded)
        cells = [
            cell
            for row in rows
            for cell in cells_of(row)
            if re.search(only, name_of(cell)) and (is_short(cell) or not short)
        ]
        found: dict[Cell, Ended] = {}

        def done(ended: Ended) -> None:
            found[ended.cell] = ended
            _tell(ended, len(found), len(cells), console)

        queue = deque(cell for cell in cells if cell.row.scene in PLAYED_ON_A_SERVER)
        async with asyncio.TaskGroup() as group:
            for site in sites:
                work = [_play_commands(site, commands, cells, done)] if site is first else []
                work += [_play_beginnings(site, cells, done)] if site is sites[-1] else []
                work += [_play_leftovers(site, cells, done)] if site is first else []
                group.create_task(_one_by_one([*work, _play_servers(site, queue, done)]))
    silent = called_actions() - {row.action for row in rows}
    return Found(rows, found, frozenset(x for x in silent if x.name not in UNPLAYED))


def is_short(cell: Cell) -> bool:
    place = (cell.row.scene, cell.row.action.name, cell.kind)
    return cell.mode is Mode.ALWAYS and place in SHORT


def name_of(cell: Cell) -> str:
    """As it is printed."""
    return f"{cell.row.scene}: {cell.row.action.name}, {cell.kind}, {cell.mode}"


async def _one_by_one(work: Iterable[Awaitable[None]]) -> None:
    for each in work:
        await each


async def _play_commands(site: Site, commands: Commands, cells: Sequence[Cell], done: Done) -> None:
    for together in _together(cell for cell in cells if cell.row.scene is Scene.CHECK):
        for ended in await play_checks(site, commands, together):
            done(ended)
    for cell in cells:
        if cell.row.scene is Scene.PRICES:
            done(await play_prices(site, commands, cell))


async def _play_beginnings(site: Site, cells: Sequence[Cell], done: Done) -> None:
    beginnings = Beginnings(site, done)
    mine = [cell for cell in cells if cell.row.scene is Scene.BEGIN]
    if mine and site.has_ended:
        await beginnings.prepare()
    for together in _together(mine):
        await beginnings.play(together)


async def _play_leftovers(site: Site, cells: Sequence[Cell], done: Done) -> None:
    if mine := [cell for cell in cells if cell.row.scene is Scene.REAP]:
        await play_leftovers(site, mine, done)


def _together(cells: Iterable[Cell]) -> Iterable[Sequence[Cell]]:
    alike: defaultdict[tuple[str, Mode], list[Cell]] = defaultdict(list)
    for cell in cells:
        alike[cell.kind, cell.mode].append(cell)
    return alike.values()


async def _play_servers(site: Site, queue: deque[Cell], done: Done) -> None:
    if queue and site.has_ended:
        await begin(site)
    while queue:
        cell = queue.popleft()
        played = PLAYED_ON_A_SERVER[cell.row.scene]
        try:
            done(await played(site, cell))
        except (AssertionError, httpx.HTTPError, TimeoutError) as error:
            done(Ended(cell, 0.0, broken=f"{error!r}\n{site.hub.tail(20)}"))
            await site.clear()
            await site.stop_hub()
            await begin(site)


# --- for people ------------------------------------------------------------------------------


def _tell(ended: Ended, number: int, of: int, console: Console) -> None:
    cell = ended.cell
    place = name_of(cell)
    said = ended.broken or ", ".join(ended.leaked) or ended.message
    why = f" ({ended.unclear})" if ended.unclear else ""
    console.print(
        f"{number:4}/{of} {ended.word:7} {ended.seconds:5.1f} s  {escape(f'{place}{why}: {said}')}",
        style="dim" if ended.is_well else "bold red",
        soft_wrap=True,
    )


def show(found: Found, console: Console) -> None:
    console.width = max(console.width, TABLE_WIDTH)
    console.print("Each cell: struck once, and struck until it is cleared.")
    console.print("  ".join(f"{mark} {word}" for word, mark in MARKS.items()))
    console.print(_actions_table(found))
    console.print(_entries_table(found))
    console.print(_impossible_table(found.rows))
    for name, why in UNPLAYED.items():
        console.print(f"{name} is not played: {why}", style="yellow")
    for action in sorted(found.unrecorded):
        console.print(f"No part of the journey calls {action.name} ({action.service})", style="red")


def _actions_table(found: Found) -> Table:
    table = Table("scene", "action", *COLUMNS)
    for row in found.rows:
        words = (_words(found, row, column) for column in COLUMNS)
        table.add_row(row.scene, row.action.name, *words)
    return table


def _entries_table(found: Found) -> Table:
    table = Table("errors of single offers", *(kind.removeprefix(ENTRY) for kind in ENTRIES))
    for row in found.rows:
        if not all(why_not(row, kind) for kind in ENTRIES):
            table.add_row(row.action.name, *(_words(found, row, kind) for kind in ENTRIES))
    return table


def _words(found: Found, row: Row, kind: str) -> str:
    if why_not(row, kind):
        return "-"
    ended = (found.ended.get(Cell(row, kind, mode)) for mode in Mode)
    return "".join(MARKS[each.word] if each else " " for each in ended)


def _impossible_table(rows: Sequence[Row]) -> Table:
    """What `-` stands for."""
    actions: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row, kind in _places(rows):
        if why := why_not(row, kind):
            shown = f"{ENTRY}*" if kind.startswith(ENTRY) else kind
            actions[why, shown][row.action.name] = None
    kinds: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (why, shown), names in actions.items():
        kinds[why, tuple(sorted(names))].append(shown)
    table = Table("- cannot happen", "of", "because")
    for (why, whole), entries in kinds.items():
        of = ", ".join(whole) if len(whole) <= FEW else f"{len(whole)} actions"
        table.add_row(", ".join(entries), of, why)
    return table


def _places(rows: Collection[Row]) -> Iterator[tuple[Row, str]]:
    return ((row, kind) for row in rows for kind in (*COLUMNS, *ENTRIES))

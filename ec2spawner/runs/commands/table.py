"""Tables of runs, for a terminal and for a spreadsheet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from ...core.text.delimited import Cell, delimited
from ...terminal import text
from ...wire import RunSummary
from ...wire.runs import MAX_SHOWN_RUNS
from .. import words
from ..submission import result_path

SHOWN: Final = 50
"""Lines of the list; --json has all."""

ESTIMATE: Final = "Costs are estimates at list prices, in USD."


def print_list(
    runs: Sequence[RunSummary], console: Console, now: datetime, *, is_of_server: bool
) -> None:
    """The newest first, an array in one line: of one server, or of all of the user's."""
    if is_of_server:
        none, whose = "This server has no runs", "this server's"
    else:
        none, whose = "You have no runs", "your"
    if not runs:
        console.print(text(f"{none}: ec2spawner run FILE --profile SLUG submits one"))
        return
    groups = list(words.grouped(runs))
    servers = [] if is_of_server else ["Server"]
    table = _table("Run", *servers, "File", "State", "Progress", "Instance", "Cost", "Since")
    for group in groups[:SHOWN]:
        newest = group.runs[-1]
        table.add_row(
            *map(
                text,
                (
                    group.number,
                    *([] if is_of_server else [words.server(newest)]),
                    newest.path,
                    group.state,
                    group.progress,
                    group.place,
                    words.cost(group.runs),
                    words.since(newest, now),
                ),
            )
        )
    console.print(table)
    if (more := len(groups) - SHOWN) > 0:
        console.print(text(f"… and {more} more: see --json"))
    if len(runs) >= MAX_SHOWN_RUNS:
        console.print(
            text(
                f"Only {whose} newest {len(runs)} runs are listed, perhaps not all of the last "
                "array: `ec2spawner runs table N` shows the array of run N"
            ),
            soft_wrap=True,
        )
    console.print(text(ESTIMATE, "dim"))


def print_run(run: RunSummary, console: Console, now: datetime) -> None:
    """All there is to say of one run."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(run, now):
        table.add_row(text(name), text(value))
    console.print(table)
    console.print(text(ESTIMATE, "dim"))


def print_array(runs: Sequence[RunSummary], console: Console) -> None:
    """One line for each run, with its parameters; the cost of all at the end."""
    names = parameter_names(runs)
    table = _table("Run", *names, "State", "Progress", "Cost")
    for run in runs:
        values = (shown(run.parameters[name]) if name in run.parameters else "" for name in names)
        cells = (f"{run.number}", *values, words.state(run), words.progress(run), words.cost([run]))
        table.add_row(*map(text, cells))
    console.print(table)
    console.print(text(f"{len(runs)} runs, {words.cost(runs)} USD together (estimate)"))


def array_csv(runs: Sequence[RunSummary]) -> str:
    """The same without the total, so that a spreadsheet's own sum is right."""
    names = parameter_names(runs)
    header = ["run", *names, "state", "usd", "attempts", "instance_type", "result"]
    return delimited(header, (_cells(run, names) for run in runs))


def parameter_names(runs: Sequence[RunSummary]) -> list[str]:
    """Of all of them, in the order in which they appear first."""
    return list(dict.fromkeys(name for run in runs for name in run.parameters))


def shown(value: JsonValue) -> str:
    """A parameter's value; text without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cells(run: RunSummary, names: Sequence[str]) -> list[Cell]:
    return [
        run.number,
        *(_cell(run.parameters.get(name)) for name in names),
        words.state(run),
        run.usd,
        run.attempts,
        run.instance_type,
        result_path(run.path, run.number) if run.delivered else "",
    ]


def _cell(value: JsonValue) -> Cell:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if value is None or is_number else shown(value)  # type: ignore[return-value]


def _lines(run: RunSummary, now: datetime) -> Iterator[tuple[str, str]]:
    yield "Run", f"{run.number}" + (f" (of array {run.array})" if run.array else "")
    yield "Server", words.server(run)
    yield "File", run.path
    yield "State", words.state(run)
    if run.message:
        yield "", run.message
    if run.cells_total:
        yield "Progress", words.progress(run)
    for name, value in run.parameters.items():
        yield f"  {name}", shown(value)
    yield "Profile", run.profile_name
    if run.payer:
        yield "Payer", run.payer
    if run.instance_type:
        yield "Instance", words.place(run)
    if run.attempts:
        yield "Attempts", f"{run.attempts} of at most {run.retries + 1}"
    rate = "" if run.usd_per_hour is None else f", {run.usd_per_hour:.4f} per hour now"
    cap = "" if run.max_usd is None else f", at most {run.max_usd:g}"
    yield "Cost", f"{words.cost([run])} USD{rate}{cap}"
    for name, at in (("Submitted", run.submitted_at), ("Started", run.started_at)):
        if at is not None:
            yield name, _time(at)
    if run.deadline is not None and run.ended_at is None:
        yield "Deadline", _time(run.deadline)
    if run.ended_at is not None:
        yield "Ended", f"{_time(run.ended_at)}, {words.since(run, now)} ago"
    if run.has_result:
        yield "Result", _result(run)


def _result(run: RunSummary) -> str:
    where = f"~/{result_path(run.path, run.number)}"
    if run.delivered:
        return where
    if run.ended_at is not None:
        return f"comes to {where}"
    return f"so far: ec2spawner runs result {run.number} --to FILE"


def _time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M %Z}"


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        right = title in ("Run", "Cost")
        table.add_column(text(title), justify="right" if right else "left", overflow="fold")
    return table

"""What was found as a person reads it, and as a program does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from .. import terminal
from .rows import Row

WIDE = 120
"""Columns from which on a table is easier to read than lines: seven columns, two of them words."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a hub left in the account and, after `--yes`, what happened to it."""

    hub: str
    store_id: str
    """Empty where the store could not be read."""
    hub_runs: bool
    rows: Sequence[Row]
    outcome: Mapping[str, str] | None = None
    """By id, what went wrong; None where nothing was to be ended."""
    trouble: str = ""
    """Why the store could not be read."""


def as_json(report: Report) -> str:
    """One object for programs; prices in USD/hour."""
    outcome = report.outcome
    return json.dumps(
        {
            "hub": report.hub,
            "store": report.store_id,
            "hub_runs": report.hub_runs,
            "trouble": report.trouble,
            "currency": "USD",
            "things": [asdict(row) for row in report.rows],
            "ended": sorted(each for each, said in (outcome or {}).items() if not said),
            "failed": {each: said for each, said in (outcome or {}).items() if said},
        }
    )


def print_table(report: Report, console: Console) -> None:
    """What is deleted and what stays, with reasons and cost."""
    ends = [row for row in report.rows if row.ends]
    spared = [row for row in report.rows if not row.ends]
    if report.trouble:
        console.print(terminal.text(f"The store cannot be read: {report.trouble}", "bold red"))
        console.print()
    for title, rows in (("Ends", ends), ("Stays", spared)):
        if rows:
            console.print(terminal.text(f"{title}:", "bold"))
            _print_rows(rows, console)
            console.print()
    for line in _summary(report, ends):
        console.print(terminal.text(line))


def _print_rows(rows: Sequence[Row], console: Console) -> None:
    """A table where the terminal has room for it, else a few lines for each: an id that is broken
    in two cannot be copied."""
    table = _table(rows)
    narrowest = console.measure(table).minimum
    if narrowest <= console.width and console.width >= WIDE:
        console.print(table)
        return
    for row in rows:
        facts = [row.state, row.user, _age(row.age_seconds), _rate(row.usd_per_hour)]
        lines = [", ".join(fact for fact in facts if fact), row.why]
        console.print(terminal.text(f"  {row.kind} {row.id}"), soft_wrap=True)
        for line in filter(None, lines):
            console.print(Padding(terminal.text(line), (0, 0, 0, 6)))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("what", no_wrap=True)
    table.add_column("id", no_wrap=True)
    table.add_column("state", overflow="fold", min_width=12)
    table.add_column("user", overflow="fold", min_width=8)
    table.add_column("age", no_wrap=True)
    table.add_column("$/h", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", min_width=30)
    for row in rows:
        cells = [row.kind, row.id, row.state, row.user, _age(row.age_seconds)]
        cells += [_usd(row.usd_per_hour), row.why]
        table.add_row(*map(terminal.text, cells))
    return table


def _summary(report: Report, ends: Sequence[Row]) -> list[str]:
    if report.outcome is not None:
        failed = sum(1 for said in report.outcome.values() if said)
        done = f"{len(report.outcome) - failed} ended"
        lines = [f"{done}, {failed} could not be ended: see above." if failed else f"{done}."]
    elif ends:
        usd = sum(row.usd_per_hour or 0.0 for row in ends)
        cost = f"which cost at least ${usd:.3f}/h (an estimate in USD, at list prices)"
        fix = "Nothing was changed. To end them: the same with --yes."
        lines = [f"{len(ends)} would end, {cost}. {fix}"]
    elif report.trouble:
        lines = ["Nothing would end while the store cannot be read. Nothing was changed."]
    else:
        lines = ["Nothing is left over. Nothing was changed."]
    if report.hub_runs:
        lines.append("The hub runs: it ends such things itself, some minutes after they are free.")
    others = {row.store for row in report.rows if row.store not in {report.store_id, ""}}
    lines += [
        f"Store {other} made some of it. If that store is lost for good: --store {other}"
        for other in sorted(others)
        if not any(row.ends and row.store == other for row in report.rows)
    ]
    if any(row.kind == "volume" and row.why == "it is a home" for row in report.rows):
        lines.append(
            "Homes are never ended here. To delete one for good: delete its user or server in "
            "JupyterHub if the hub is configured to delete_forever, or aws ec2 delete-volume."
        )
    return lines


def _age(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86400:.0f} d"


def _rate(amount: float | None) -> str:
    """For a line of facts; nothing for what is free or what has no known price."""
    return f"{amount:.3f} USD/h" if amount else ""


def _usd(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:.3f}"

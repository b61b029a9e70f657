"""The report of a test for people."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from ..terminal import text
from .report import Report, Times

DRIVER_BUSY: Final = (
    "The simulated users needed more than 90 % of a core, so these times are longer than the hub's "
    "own. Use fewer users, or locust's workers on several cores."
)

COST: Final = (
    "The instances cost about ${:.2f} while servers existed, without disks; retained, replaced and "
    "pool instances are not included."
)


def print_report(report: Report, console: Console) -> None:
    """Tables of times and of failures, and what needs attention."""
    table = Table()
    table.add_column("step")
    for name in ("done", "failed", "median s", "p95 s", "p99 s", "max s"):
        table.add_column(name, justify="right")
    for name, each in {**report.steps, "hub health": report.health}.items():
        table.add_row(text(name), *_cells(each))
    console.print(table)
    if report.failures:
        table = Table("times", "step", "why it failed")
        for failure in report.failures:
            table.add_row(str(failure.count), text(failure.step), text(failure.message))
        console.print(table)
    if report.ended_by:
        console.print(text(f"The test ended early: {report.ended_by}."))
    if report.driver_busy:
        console.print(text(DRIVER_BUSY))
    if report.estimated_usd is not None:
        console.print(text(COST.format(report.estimated_usd)))
    for user, why in report.left.items():
        console.print(text(f"Not removed, and may still cost money: {user}: {why}", "bold red"))


def _cells(found: Times) -> tuple[str, ...]:
    figures = (found.median_s, found.p95_s, found.p99_s, found.max_s)
    shown = ("–" if figure is None else f"{figure:.3f}" for figure in figures)
    return (str(found.count), str(found.failures), *shown)

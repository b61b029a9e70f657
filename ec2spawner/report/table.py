"""A report in a terminal, wide or narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from .. import terminal
from ..core.ledger.cost_lines import CostLine
from . import wording
from .contents import Report
from .reconciled import Reconciled, headline, instance_words, reason_lines, remarks

WIDEST: Final = 1000
"""Columns in which any table has the width that it would like."""

UNSETTLED_SHOWN: Final = 20
"""Instances with an unexplained difference that are listed; `--json` has all."""

_AMOUNTS: Final = ("USD", "used", "idle", "overhead", "saved", "hours", "GPU h")

_LEFT_OUT_FIRST: Final = ("GPU h", "saved", "hours")
"""In a narrow terminal. What was spent, and on what, stays."""


def print_report(report: Report, console: Console) -> None:
    """The lines, their sum, the causes of overhead, and the discounts."""
    title = f"{report.scope.hub}: {wording.period(report)}"
    if report.scope.user:
        title += f", servers of {report.scope.user}"
    console.print(terminal.text(title, "bold"))
    if said := wording.cut(report):
        console.print(terminal.text(said))
    if report.lines and report.scope.by:
        console.print()
        _print_lines(report, console)
    console.print()
    console.print(terminal.text(wording.summary(report.total)))
    if report.overhead:
        causes = ", ".join(f"{cause} {wording.usd(n)}" for cause, n in report.overhead.items())
        console.print(terminal.text(f"Overhead by cause, in USD: {causes}."))
    for name, said in wording.discount_sentences(report.discounts, report.made_at):
        console.print(terminal.text(f"Discount {name}: {said}"))
    for said in (wording.unknown_prices(report.total), wording.ESTIMATE):
        if said:
            console.print(terminal.text(said, "dim"))


def print_reconciled(found: Reconciled, console: Console) -> None:
    """The sums, each reason with its amount, and what is unsettled."""
    console.print()
    console.print(terminal.text("Against the bill", "bold"))
    console.print(terminal.text(headline(found)))
    width = max((len(amount) for amount, *_ in reason_lines(found)), default=0)
    for amount, meaning, is_settled in reason_lines(found):
        style = "" if is_settled else "yellow"
        line = terminal.text(f"{amount:>{width}}  {meaning}", style)
        console.print(Padding(line, (0, 0, 0, 2)))
    for each in found.unsettled[:UNSETTLED_SHOWN]:
        named = f"{each.instance_id} ({each.instance_type}): {instance_words(each)}"
        console.print(Padding(terminal.text(named), (0, 0, 0, 2)))
    if (more := len(found.unsettled) - UNSETTLED_SHOWN) > 0:
        console.print(terminal.text(f"… and {more} more: see --json"))
    for said in remarks(found):
        console.print(terminal.text(said))


def _print_lines(report: Report, console: Console) -> None:
    """A table, without some of its columns where the terminal is narrow; where it is too narrow
    for that too, a few lines for each."""
    room = console.options.update(width=WIDEST)
    for number in range(len(_LEFT_OUT_FIRST) + 1):
        left_out = _LEFT_OUT_FIRST[:number]
        table = _table(report, left_out)
        if console.measure(table, options=room).maximum <= console.width:
            console.print(table)
            if left_out:
                said = f"Not shown here: {', '.join(left_out)}. --csv and --json have everything."
                console.print(terminal.text(said, "dim"))
            return
    for line in report.lines:
        console.print(terminal.text(", ".join(wording.named(line.key)), "cyan"))
        cells = zip(_AMOUNTS, wording.amounts(line), strict=True)
        words = ", ".join(f"{title} {cell}" for title, cell in cells)
        console.print(Padding(terminal.text(words), (0, 0, 0, 2)))


def _table(report: Report, left_out: Sequence[str]) -> Table:
    shown = [title not in left_out for title in _AMOUNTS]

    def cells(line: CostLine) -> Iterable[str]:
        return compress(wording.amounts(line), shown)

    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    for place, title in enumerate(report.scope.by):
        table.add_column(title, footer="total" if not place else "")
    for title, footer in zip(compress(_AMOUNTS, shown), cells(report.total), strict=True):
        table.add_column(title, footer=footer, justify="right")
    table.columns[len(report.scope.by)].style = "bold"
    for line in report.lines:
        table.add_row(*map(terminal.text, [*wording.named(line.key), *cells(line)]))
    return table

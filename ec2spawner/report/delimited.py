"""A report as CSV. Pure."""

from __future__ import annotations

from ..core.ledger.cost_lines import AMOUNTS, amounts
from ..core.text.delimited import delimited
from .contents import DIMENSIONS, Report


def report_csv(report: Report) -> str:
    """The lines without their total, so that a spreadsheet's own sum is right.

    Where prices are unknown, `unknown_prices` counts them and the amounts are lower bounds; `usd`
    is empty where none is known.
    """
    header = [DIMENSIONS[name].value for name in report.scope.by]
    return delimited([*header, *AMOUNTS], ([*line.key, *amounts(line)] for line in report.lines))

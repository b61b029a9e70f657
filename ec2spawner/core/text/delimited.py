"""CSV that a spreadsheet shows and never runs. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from .untrusted import visible

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell that begins with one of these is a formula to some spreadsheet; the last four are the
full-width forms that East Asian editions take as well. OWASP, "CSV Injection"."""

Cell = str | int | float | None
"""None is an empty cell."""


def safe(cell: Cell) -> Cell:
    """Text that cannot be taken for a formula; numbers stay numbers.

    Control characters are written out, and an apostrophe goes before what would begin a formula,
    also after blanks, which some spreadsheets strip.
    """
    if not isinstance(cell, str):
        return cell
    shown = visible(cell)
    return f"'{shown}" if cell.lstrip(" ").startswith(FORMULA) else shown


def delimited(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A header and the rows, comma-separated, each cell `safe`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return text.getvalue()

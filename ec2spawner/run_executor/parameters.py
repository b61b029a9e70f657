"""Parameters of a notebook, by papermill's convention. Pure.

A cell tagged `injected-parameters` with one assignment for each goes after the cell tagged
`parameters`, whose values are the defaults; or first, where there is none. A cell that was injected
before is replaced.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from pydantic import JsonValue

from .execution import CannotExecute

DEFAULTS = "parameters"
INJECTED = "injected-parameters"


def inject(notebook: NotebookNode, parameters: Mapping[str, JsonValue]) -> None:
    """Set the parameters in the notebook; nothing changes without any. Raises `CannotExecute`."""
    if not parameters:
        return
    cell = new_code_cell(source(parameters), metadata={"tags": [INJECTED]})
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        del cell["id"]  # cells have none in this version of the format
    cells = notebook.cells
    if (place := _tagged(cells, INJECTED)) is not None:
        cells[place] = cell
    elif (place := _tagged(cells, DEFAULTS)) is not None:
        cells.insert(place + 1, cell)
    else:
        cells.insert(0, cell)


def source(parameters: Mapping[str, JsonValue]) -> str:
    """The assignments, in Python. Raises `CannotExecute`."""
    lines = ["# Parameters"]
    for name, value in parameters.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise CannotExecute(
                f"The parameter {name!r} cannot be set: use a name that a variable of Python can "
                "have, such as learning_rate."
            )
        lines.append(f"{name} = {literal(value)}")
    return "\n".join(lines)


def literal(value: JsonValue) -> str:
    """A value as Python writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {literal(each)}' for key, each in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _tagged(cells: list[NotebookNode], tag: str) -> int | None:
    """Where the first code cell with this tag is."""
    for place, cell in enumerate(cells):
        if cell.cell_type == "code" and tag in cell.metadata.get("tags", []):
            return place
    return None

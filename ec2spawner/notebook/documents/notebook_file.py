"""Outputs of executions in a notebook's content. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .executions import Execution


def merge(content: dict[str, Any], executions: Iterable[Execution]) -> bool:
    """Put the outputs into the notebook's cells; whether anything has changed."""
    cells = {cell.get("id"): cell for cell in content["cells"] if cell.get("cell_type") == "code"}
    has_changed = False
    for execution in executions:
        cell = cells.get(execution.cell_id)
        if cell is None:
            continue
        shown = {"outputs": execution.outputs.as_nbformat(), "execution_count": execution.count}
        if any(cell.get(name) != value for name, value in shown.items()):
            cell.update(shown)
            has_changed = True
    return has_changed

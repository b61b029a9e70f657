"""Has the running cell run again when its session is woken: `ec2spawner.sleep.restart`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from ..sleep import owned, restart
from .place import notebook_path


def remember(loop: str) -> bool:
    """Have the running cell run again at the next wake; False where that is not possible.

    `loop` is the folder of its checkpoints.
    """
    code, cell_id = _cell()
    if not code or not notebook_path():
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return restart.remember(loop, restart.Cell(notebook_path(), cell_id, code, now))
    except (OSError, owned.NotOurs):
        return False


def forget(loop: str) -> None:
    """The cell is not run again."""
    try:
        restart.forget(loop)
    except (OSError, owned.NotOurs):
        return  # it cannot be read at the wake either


def _cell() -> tuple[str, str]:
    """Code and id of the cell that runs, from the request that it came with; empty if unknown."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    try:
        request = shell.get_parent()
        return str(request["content"]["code"]), str(request["metadata"].get("cellId", ""))
    except (AttributeError, KeyError, TypeError):  # a terminal's IPython, or none
        return "", ""

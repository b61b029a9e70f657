"""Has the running cell run again when its session is woken: `ec2spawner.sleep.restart`."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..sleep import restart
from ..sleep.storage import owned
from .place import notebook_path


def remember(loop: str) -> bool:
    """Have the running cell run again at the next wake; False where that is not possible.

    `loop` is the folder of its checkpoints.
    """
    notebook, kernel_id, (code, cell_id) = notebook_path(), _kernel_id(), _cell()
    if not (notebook and kernel_id and code):
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return restart.remember(loop, restart.Cell(notebook, kernel_id, cell_id, code, now))
    except (OSError, owned.NotOurs):
        return False


def is_run_by_wake() -> bool:
    """Whether the running cell was asked for by the wake of its session, not by a page."""
    try:
        return bool(_shell().get_parent()["metadata"].get(restart.BY_WAKE))
    except (AttributeError, KeyError, TypeError):
        return False


def is_in_kernel() -> bool:
    """Whether this process is a kernel of Jupyter, not a script."""
    return bool(_kernel_id())


def forget(loop: str) -> None:
    """The cell is not run again."""
    try:
        restart.forget(loop)
    except (OSError, owned.NotOurs):
        return  # it cannot be read at the wake either


def _kernel_id() -> str:
    """Jupyter's, from the name of the connection file `kernel-ID.json`; empty if unknown."""
    with suppress(Exception):  # of a kernel of another make
        application = sys.modules["ipykernel.kernelapp"].IPKernelApp.instance()
        return Path(application.abs_connection_file).stem.removeprefix("kernel-")
    return ""


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _cell() -> tuple[str, str]:
    """Code and id of the cell that runs, from the request that it came with; empty if unknown."""
    try:
        request = _shell().get_parent()
        return str(request["content"]["code"]), str(request["metadata"].get("cellId", ""))
    except (AttributeError, KeyError, TypeError):  # a terminal's IPython, or none
        return "", ""

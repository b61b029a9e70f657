"""Which cells run again when a session is woken: `~/.ec2spawner/sleep/restart.json`.

```json
{"version": 1, "cells": {"<folder of the checkpoints>": {
  "notebook": "work/train.ipynb", "cell_id": "4f0e…", "code": "for epoch in …",
  "asked_at": "2026-05-04T14:10:00+00:00"}}}
```

A loop with `restart=True` writes its cell when it begins, and removes it when it ends or is
stopped by its user, but not when the machine ends. Who wakes a session reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .place import notebook_path

FILE: Final = Path(".ec2spawner/sleep/restart.json")
"""Below the home."""

MAX_CODE: Final = 256 * 1024
"""Characters of a cell that is kept."""


def remember(folder: str) -> bool:
    """Have the running cell run again at the next wake; False where there is none to name."""
    shell = _shell()
    code, cell_id = _cell(shell)
    if not code or not notebook_path() or len(code) > MAX_CODE:
        return False
    cell = {
        "notebook": notebook_path(),
        "cell_id": cell_id,
        "code": code,
        "asked_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    _change(lambda cells: cells.update({folder: cell}))
    return True


def forget(folder: str) -> None:
    """The cell is not run again."""
    if (Path.home() / FILE).exists():
        _change(lambda cells: cells.pop(folder, None))


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _cell(shell: Any) -> tuple[str, str]:
    """Code and id of the cell that runs, from the request that it came with; empty if unknown."""
    try:
        request = shell.get_parent()
        return str(request["content"]["code"]), str(request["metadata"].get("cellId", ""))
    except (AttributeError, KeyError, TypeError):  # a terminal's IPython, or none
        return "", ""


def _change(change: Callable[[dict[str, Any]], object]) -> None:
    """Change the cells of the file, which several kernels write."""
    file = Path.home() / FILE
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (file.parent / "restart.lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.lockf(lock, fcntl.LOCK_EX)
        cells = _read(file)
        change(cells)
        new = file.with_suffix(".new")
        with new.open("w") as out:
            json.dump({"version": 1, "cells": cells}, out)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)


def _read(file: Path) -> dict[str, Any]:
    try:
        cells = json.loads(file.read_bytes())["cells"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return cells if isinstance(cells, dict) else {}

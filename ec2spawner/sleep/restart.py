"""Which cells run again when the session is woken: `restart.json` in the folder of sleep.

```json
{"version": 1, "cells": {"<folder of the checkpoints>": {
  "notebook": "/home/ann/train.ipynb", "kernel_id": "f04c…", "cell_id": "4f0e…",
  "code": "for epoch in …", "asked_at": "2026-05-04T14:10:00+00:00"}}}
```

A loop whose user asked for that writes its cell when it begins, and removes it when it ends. Who
wakes the session takes it out before running it. A loop that runs again writes it again with its
first checkpoint: one that ends its machine before that does not run at each wake.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .storage import owned
from .storage.folder import kernel_key, root

FILE: Final = "restart.json"
LOCK: Final = "restart.lock"

BY_WAKE: Final = "ec2spawner.by_wake"
"""In the metadata of the request that runs a cell again."""

MAX_CODE: Final = 256 * 1024
"""Characters of a cell."""

MAX_CELLS: Final = 50
MAX_BYTES: Final = 16 * 2**20
"""Of the file; a longer one is not read."""

LOCK_SECONDS: Final = 2.0
"""Until the lock is given up: who has it reads and writes a small file. A process that is stopped
there, or a file server that does not respond, must not block a cell, or a server that ends."""

POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, as its kernel was asked to run it."""

    notebook: str
    """Path, absolute or relative to the home."""
    kernel_id: str
    """Jupyter's; it stays the same over a sleep."""
    cell_id: str
    """Empty where the front end sent none."""
    code: str
    asked_at: str
    """ISO 8601, UTC."""


def remember(key: str, cell: Cell) -> bool:
    """Have a cell run again at the next wake; `key` names its loop. False for a cell that is too
    long. Raises `OSError`, `NotOurs`; `TimeoutError`, which is an `OSError`, if another process
    keeps the file locked."""
    if not cell.code or len(cell.code) > MAX_CODE:
        return False
    with _locked() as cells:
        cells.pop(key, None)
        cells[key] = cell
        for oldest in list(cells)[:-MAX_CELLS]:
            del cells[oldest]
    return True


def forget(key: str) -> None:
    """The cell of this loop is not run again. Raises `OSError`, `NotOurs`."""
    if (root() / FILE).exists():
        with _locked() as cells:
            cells.pop(key, None)


def take(notebook: str, kernel_id: str) -> list[Cell]:
    """Take out the cells of a notebook; those that ran in this kernel, each once. Raises
    `OSError`, `NotOurs`.
    """
    if not (root() / FILE).exists():
        return []
    key = kernel_key(notebook, "")
    with _locked() as cells:
        keys = [each for each, cell in cells.items() if kernel_key(cell.notebook, "") == key]
        taken = [cells.pop(each) for each in keys]
    # A cell with two loops, one in the other, is here twice.
    ours = {(cell.cell_id, cell.code): cell for cell in taken if cell.kernel_id == kernel_id}
    return list(ours.values())


@contextlib.contextmanager
def _locked() -> Iterator[dict[str, Cell]]:
    """The cells, which are written back: several kernels change them. Raises `TimeoutError`."""
    folder = root()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    owned.check(folder)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _lock(lock)
        cells = _read(folder)
        yield cells
        content = {"version": 1, "cells": {key: asdict(cell) for key, cell in cells.items()}}
        owned.replace_file(folder / FILE, json.dumps(content).encode())
    finally:
        os.close(lock)


def _lock(file: int) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return  # a file system without locks
            if time.monotonic() >= until:
                raise TimeoutError(f"another process has {LOCK} locked") from None
            time.sleep(POLL_SECONDS)
        else:
            return


def _read(folder: Path) -> dict[str, Cell]:
    """Those that are well-formed; none of a file that is damaged."""
    try:
        with open(owned.open_ours(folder / FILE), "rb") as file:  # noqa: PTH123 - of a descriptor
            content = file.read(MAX_BYTES + 1)
        found = json.loads(content)["cells"] if len(content) <= MAX_BYTES else {}
        return {str(key): cell for key, each in found.items() if (cell := _cell(each))}
    except (owned.NotOurs, OSError, ValueError):
        return {}
    except (LookupError, TypeError, AttributeError, RecursionError):  # of another form
        return {}


def _cell(found: Any) -> Cell | None:
    try:
        cell = Cell(**found)
    except TypeError:
        return None
    values = (cell.notebook, cell.kernel_id, cell.cell_id, cell.code, cell.asked_at)
    return cell if all(isinstance(each, str) for each in values) else None

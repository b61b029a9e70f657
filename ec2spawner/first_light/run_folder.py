"""The folder of one run: it stays until nothing of the run is left in the account.

A run that was killed leaves its folder with the id of its store, so that the next one can delete
what it created.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

_RUN: Final = "run.json"
_LOCK: Final = "lock"


class Run(BaseModel):
    """Where a run creates resources, and under which tags."""

    region: str
    endpoint_url: str
    hub_name: str
    store_id: str


class RunFolder:
    """A folder that this process holds."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls) -> RunFolder:
        """A new one, only for this user."""
        path = Path(tempfile.mkdtemp(prefix="run-", dir=_parent()))
        held = _held(path)
        assert held is not None
        return cls(path, held)

    def write(self, run: Run) -> None:
        """Record the run before it creates anything."""
        (self.path / _RUN).write_text(run.model_dump_json())

    def read(self) -> Run | None:
        """None where nothing was created yet."""
        try:
            return Run.model_validate_json((self.path / _RUN).read_text())
        except (OSError, ValidationError):
            return None

    def close(self, *, delete: bool) -> None:
        """Let go of it; with `delete`, nothing of the run is left in the account."""
        if delete:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def interrupted() -> Iterator[RunFolder]:
    """Folders of runs that were killed: no process holds them."""
    for path in sorted(_parent().glob("run-*")):
        held = _held(path)
        if held is not None:
            yield RunFolder(path, held)


def _parent() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    parent = Path(state) / "ec2spawner" / "first-light"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return parent


def _held(path: Path) -> int | None:
    """A lock on the folder that ends with this process; None where another holds it."""
    with suppress(FileNotFoundError):
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock
    return None

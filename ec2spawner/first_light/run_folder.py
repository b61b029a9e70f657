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
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import BaseModel

_RUN: Final = "run.json"
_LOCK: Final = "lock"


class FolderUnusable(Exception):
    """The folder of the runs, or a file in it, cannot be used; the message has the fix."""


class Run(BaseModel):
    """Where a run creates resources, and under which tags."""

    account_id: str
    """The AWS account: credentials of another one list nothing of it."""
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
        """A new one, only for this user. Raises `FolderUnusable`."""
        with _all_runs() as parent:
            path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            lock = _open(path / _LOCK)
            fcntl.flock(lock, fcntl.LOCK_EX)
            return cls(path, lock)

    def write(self, run: Run) -> None:
        """Record the run before it creates anything; survives a crash of this computer."""
        new = self.path / f"{_RUN}.new"
        with new.open("w") as file:
            file.write(run.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.path / _RUN)

    def read(self) -> Run | None:
        """None where nothing was created yet. Raises `FolderUnusable`."""
        path = self.path / _RUN
        try:
            return Run.model_validate_json(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise FolderUnusable(
                f"{path}, which says what an earlier run created, cannot be read: {why}. Fix: "
                f"`ec2spawner reap` lists what no hub uses; then delete {self.path}"
            ) from error

    def close(self, *, delete: bool) -> None:
        """Let go of it; with `delete`, nothing of the run is left in the account."""
        if delete:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def interrupted() -> list[RunFolder]:
    """Folders of runs that were killed: no process held them until now.

    Raises `FolderUnusable`.
    """
    with _all_runs() as parent:
        found = ((path, _held(path)) for path in sorted(parent.glob("run-*")))
        return [RunFolder(path, lock) for path, lock in found if lock is not None]


@contextmanager
def _all_runs() -> Iterator[Path]:
    """The folder of all runs. Only one process at a time creates and takes over folders in it: a
    new one would otherwise look like that of a run that was killed, until it is locked."""
    parent = _state_home() / "ec2spawner" / "first-light"
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _open(parent / _LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield parent
        finally:
            os.close(lock)
    except OSError as error:
        raise FolderUnusable(
            f"{parent}, where first-light remembers what it created, cannot be used: "
            f"{error.strerror}. Fix: let this user write to it, or set XDG_STATE_HOME to a folder "
            "that they can write to"
        ) from error


def _state_home() -> Path:
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state)
    try:
        return Path.home() / ".local/state"
    except RuntimeError as error:
        raise FolderUnusable(
            "this user has no home folder. Fix: set XDG_STATE_HOME to a folder that they can "
            "write to"
        ) from error


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _held(path: Path) -> int | None:
    """A lock on the folder that ends with this process; None where another holds it."""
    try:
        lock = _open(path / _LOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock

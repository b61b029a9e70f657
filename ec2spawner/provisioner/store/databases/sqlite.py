"""A store in a SQLite file of its own, held by a lock on a file beside it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event

from .database import StoreError, StoreHeldError, explained

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

BUSY_SECONDS: Final = 5.0
"""Seconds for which SQLite waits for another program that locks the file, such as a backup."""

T = TypeVar("T")


class SQLite:
    """See `Database`. The lock ends with the process and cannot be lost before."""

    def __init__(self, url: URL) -> None:
        self.name = f"the store {url.render_as_string(hide_password=True)}"
        self._url = url
        self._engine: Engine | None = None
        self._lock: _FileLock | None = None

    def open(self) -> None:
        """Create the file with mode 0600 and lock it.

        Raises `StoreHeldError` if another hub has it.
        """
        path = _path(self._url)
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _FileLock(path.with_name(path.name + ".lock"))
            # SQLite gives its -wal and -shm files the mode of the file itself.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._engine = create_engine(
            self._url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}
        )
        event.listen(self._engine, "connect", _prepare_connection)

    def taken_over(self, epoch: int) -> None:
        """Nothing to remember: the lock cannot be lost while the process lives."""

    def hold(self) -> None:
        """Raise `StoreError` once the store is closed."""
        if self._engine is None:
            raise StoreError("the store is closed")

    def transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        """Run `work` in a transaction; a write takes SQLite's write lock at its start."""
        if self._engine is None:
            raise StoreError("the store is closed")
        with self._engine.connect() as connection, connection.begin():
            # IMMEDIATE takes the write lock at once: a transaction that requests it later can be
            # refused without waiting. A reader needs no lock.
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
            return work(connection)

    def peek(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction that only reads, without the lock."""
        path = _path(self._url)
        if path is None or not path.exists():
            raise StoreError(f"{self.name} does not exist: nothing was ever launched from it")
        readonly = f"sqlite:///file:{quote(str(path.resolve()))}?mode=ro&uri=true"
        engine = create_engine(
            readonly, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}
        )
        try:
            with engine.connect() as connection:
                return work(connection)
        finally:
            engine.dispose()

    def is_held(self) -> bool:
        """Whether another process holds it: a hub runs."""
        path = _path(self._url)
        if path is None:
            return False
        try:
            descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def explained(self, error: Exception) -> str:
        """SQLite's error and what to do, such as to free disk space."""
        return explained(self.name, error, _FIXES)

    def close(self) -> None:
        """Close the file and release the lock."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class _FileLock:
    """Held from construction to `release`, or to the end of the process."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            raise StoreHeldError(
                f"another hub holds {path} (process {holder or 'unknown'}): two hubs must not "
                "share a store; stop that one, or give this one a file of its own"
            ) from error
        self._descriptor = descriptor
        with suppress(OSError):  # on a full disk: it only names the holder
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        # The file stays: after unlinking it, two processes could lock two files of one name.
        os.close(self._descriptor)


def _path(url: URL) -> Path | None:
    """The database's file; None where it is in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database))


def _prepare_connection(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    # Python's sqlite3 begins transactions by rules of its own and never for DDL; `BEGIN` is ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # An intent is stored before money is spent: it must survive a power cut.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


_FIXES: Final = (
    ("locked", "another program holds the file; end it, or copy the file with sqlite3's .backup"),
    ("full", "make room on its disk"),
    ("no space left", "make room on its disk"),
    ("disk i/o", "make room on its disk, or look whether it is broken"),
    ("readonly", "let the hub's user write the file and its folder"),
    ("unable to open", "let the hub's user read and write the file and its folder"),
    ("permission denied", "let the hub's user read and write the file and its folder"),
    ("malformed", "restore a backup, or move it away: running servers are found by their tags"),
    ("not a database", "name another file, or move this one away"),
)

"""What the provisioner remembers, in a database of its own: never the hub's.

All database work runs in one thread, so that nothing here blocks the event loop and writes
happen in the order in which they were asked for. Every write is one transaction: after a crash
it is there whole or not at all.

A cancelled or timed-out await does not stop the write behind it: it happens in its turn, and
`close` comes after it. Whoever must know shields it (`asyncio.shield`) and waits. Every write may
be repeated.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    create_engine,
    delete,
    event,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..core.money import Segment
from ..wire import Step
from . import queries, rows
from .lease import Binding, Home, Intent, Lease, Snapshot
from .migrations import SchemaTooNewError, upgrade

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

DEFAULT_URL: Final = "sqlite:///ec2spawner.sqlite"

BUSY_SECONDS: Final = 5.0
"""How long SQLite waits for another program that holds the file, such as a backup."""

ANSWER_SECONDS: Final = 30.0
"""An answer of the database later than this is an error: more than any wait SQLite makes."""

T = TypeVar("T")


class StoreError(Exception):
    """The store cannot be opened, read or written; the message says how to mend it."""


class StoreHeldError(StoreError):
    """Another process holds the store: it may be a hub that is just ending."""


class KeyAlreadyBound(Exception):
    """The instance is bound to another agent's key: the claim is not from whom it says."""

    def __init__(self, instance_id: str) -> None:
        super().__init__(f"instance {instance_id} is bound to another key")
        self.instance_id = instance_id


class Store:
    """The provisioner's memory. Make one with `Store.open`; all methods may raise `StoreError`."""

    store_id: str
    """Random, made once with the schema; in the tags of all that this store launched."""

    def __init__(self, url: URL, since: datetime) -> None:
        self._url = url
        self._since = since
        self._engine: Engine | None = None
        self._lock: _FileLock | None = None
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="ec2spawner-store"
        )

    @classmethod
    async def open(
        cls, url: str = DEFAULT_URL, *, recent: timedelta = timedelta(hours=1), now: datetime
    ) -> Store:
        """Open the store at `url`, make or upgrade its schema, and hold it against a second hub.

        `load` gives answered intents younger than `recent` before `now`.
        Raises `StoreHeldError` while another process holds it, and `StoreError` when the URL is
        wrong, the file cannot be used, or its schema is newer than this code.
        """
        store = cls(_checked(url), now - recent)
        try:
            await store._run(store._connect)
        except BaseException:
            await asyncio.shield(store.close())
            raise
        return store

    async def load(self) -> Snapshot:
        """All that still matters, see `Snapshot`."""
        return await self._read(lambda connection: queries.snapshot(connection, self._since))

    async def save_lease(self, lease: Lease) -> None:
        """Insert or replace the lease with its events and segments."""

        def write(connection: Connection) -> None:
            _upsert(connection, rows.lease_table, rows.lease_row(lease))
            _replace(connection, rows.event_table, lease.lease_id, rows.event_rows(lease))
            _replace(
                connection,
                rows.segment_table,
                lease.lease_id,
                [rows.segment_row(segment, lease.lease_id) for segment in lease.segments],
            )

        await self._write(write)

    async def save_intent(self, intent: Intent) -> None:
        """Insert or replace: before the call as open, after it with its answer."""
        await self._write(
            lambda connection: _upsert(connection, rows.intent_table, rows.intent_row(intent))
        )

    async def intents(self, client_tokens: Collection[str]) -> tuple[Intent, ...]:
        """The launch calls with these tokens, of any age; unknown tokens are no error."""
        return await self._read(lambda connection: queries.intents(connection, client_tokens))

    async def save_binding(self, binding: Binding) -> None:
        """Bind the instance to the key, for good: the first one wins.

        The same key again is no error. Raises `KeyAlreadyBound` for another.
        """

        def write(connection: Connection) -> None:
            column = rows.binding_table.c
            bound: str | None = connection.scalar(
                select(column.key_sha256).where(column.instance_id == binding.instance_id)
            )
            if bound is None:
                connection.execute(insert(rows.binding_table), [rows.binding_row(binding)])
            elif bound != binding.key_sha256:
                raise KeyAlreadyBound(binding.instance_id)

        await self._write(write)

    async def save_home(self, home: Home) -> None:
        """Insert or replace. A volume belongs to one home: a second one is a `StoreError`."""
        await self._write(
            lambda connection: _upsert(connection, rows.home_table, rows.home_row(home))
        )

    async def save_overhead(self, segment: Segment) -> None:
        """Keep a segment that belongs to no lease; saved again with its end, it is the same."""

        def write(connection: Connection) -> None:
            column = rows.segment_table.c
            connection.execute(
                delete(rows.segment_table).where(
                    column.lease_id.is_(None),
                    column.instance_id == segment.instance_id,
                    column.started_at == segment.start,
                )
            )
            connection.execute(insert(rows.segment_table), [rows.segment_row(segment, None)])

        await self._write(write)

    async def overhead(self, since: datetime) -> tuple[Segment, ...]:
        """Segments of no lease that ended after `since` or have not ended, oldest first."""
        return await self._read(lambda connection: queries.overhead(connection, since))

    async def usual_durations(self, profile: str, limit: int = 30) -> Mapping[Step, float]:
        """Median seconds of each step over the profile's last `limit` starts that got ready.

        Starts that lost an instance on their way are left out: they are not usual.
        """
        return await self._read(
            lambda connection: queries.usual_durations(connection, profile, limit)
        )

    async def close(self) -> None:
        """Finish all that was asked for and let go of the file. A second call does nothing."""
        if self._thread is None:
            return
        try:
            await self._run(self._disconnect)
        finally:
            self._thread.shutdown(wait=False)
            self._thread = None

    # --- in the thread ---

    def _connect(self) -> None:
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
        event.listen(self._engine, "begin", _begin_immediate)
        with self._engine.begin() as connection:
            upgrade(connection)
            self.store_id = connection.scalars(select(rows.store_table.c.store_id)).one()

    def _disconnect(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def _write(self, work: Callable[[Connection], None]) -> None:
        await self._read(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        def transaction() -> T:
            if self._engine is None:
                raise StoreError("the store is closed")
            with self._engine.begin() as connection:
                return work(connection)

        return await self._run(transaction)

    async def _run(self, work: Callable[[], T]) -> T:
        """Run in the store's thread; what a database can raise comes out as `StoreError`."""
        if self._thread is None:
            raise StoreError("the store is closed")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # Shielded: a write that waits for its turn would be dropped with its caller.
                return await asyncio.shield(
                    asyncio.get_running_loop().run_in_executor(self._thread, work)
                )
        except TimeoutError as error:
            raise StoreError(
                f"{self._name} has not answered for {ANSWER_SECONDS:.0f} s: is its disk full, "
                "broken or on a network? What was asked for may still happen"
            ) from error
        except SchemaTooNewError as error:
            raise StoreError(
                f"{self._name} was written by a newer ec2spawner (schema {error.revision}): "
                "install that version again, or name another file"
            ) from error
        except (SQLAlchemyError, OSError, ValueError) as error:
            raise StoreError(_explained(self._name, error)) from error

    @property
    def _name(self) -> str:
        return f"the store {self._url.render_as_string(hide_password=True)}"


class _FileLock:
    """Held from construction to `release`, or to the end of the process however it ends."""

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
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        # The file stays: to unlink it would let two processes lock two files of one name.
        os.close(self._descriptor)


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            f"the store's URL is not one of SQLAlchemy's: write it like {DEFAULT_URL}"
        ) from error
    if parsed.get_backend_name() != "sqlite":
        # The lock that keeps a second reconciler out is a file lock beside the database.
        raise StoreError(
            f"a store on {parsed.get_backend_name()} is not supported: "
            f"write a file's URL, like {DEFAULT_URL}"
        )
    return parsed


def _path(url: URL) -> Path | None:
    """The database's file; None where it is in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database))


def _prepare_connection(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    # Python's sqlite3 begins transactions by rules of its own and never for DDL; `begin` is ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # An intent is stored before money is spent: it shall survive a power cut too.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    # Takes the write lock at once: a transaction that asks for it later can be refused unwaited.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _upsert(connection: Connection, table: Table, row: rows.Row) -> None:
    key = table.primary_key.columns[0]
    if connection.execute(update(table).where(key == row[key.name]), [row]).rowcount == 0:
        connection.execute(insert(table), [row])


def _replace(connection: Connection, table: Table, lease_id: str, new: Sequence[rows.Row]) -> None:
    connection.execute(delete(table).where(table.c.lease_id == lease_id))
    if new:
        connection.execute(insert(table), new)


_MENDS: Final = (
    ("locked", "another program holds the file; end it, or copy the file with sqlite3's .backup"),
    ("full", "make room on its disk"),
    ("readonly", "let the hub's user write the file and its folder"),
    ("unable to open", "let the hub's user read and write the file and its folder"),
    ("permission denied", "let the hub's user read and write the file and its folder"),
    ("malformed", "restore a backup, or move it away: running servers are found by their tags"),
    ("not a database", "name another file, or move this one away"),
)


def _explained(name: str, error: Exception) -> str:
    """One line for a person: what failed and how to mend it; never a statement's values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = str(cause)
    mend = next((mend for sign, mend in _MENDS if sign in said.lower()), "see the hub's log")
    return f"{name} failed ({type(cause).__name__}: {said}): {mend}"

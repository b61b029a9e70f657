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
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from functools import cache
from typing import Final, TypeVar

from sqlalchemy import (
    Connection,
    Delete,
    Insert,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    make_url,
    or_,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from ...core.instances.retention_rules import Kept
from ...core.pricing.money import Segment
from ...wire import Step
from ..model import metrics
from ..model.lease import (
    Binding,
    Home,
    Intent,
    Lease,
    Snapshot,
)
from . import queries, tables
from .database import (
    Database,
    StoreAwayError,
    StoreError,
    StoreHeldError,
)
from .migrations import ForeignSchemaError, SchemaTooNewError, upgrade
from .postgresql import PostgreSQL
from .sqlite import SQLite
from .write_behind import WriteBehindQueue

__all__ = ["KeyAlreadyBound", "Store", "StoreAwayError", "StoreError", "StoreHeldError"]

log = logging.getLogger(__name__)

DEFAULT_URL: Final = "sqlite:///ec2spawner.sqlite"

ANSWER_SECONDS: Final = 30.0
"""An answer of the database later than this is an error: more than any wait it makes itself."""

T = TypeVar("T")


class KeyAlreadyBound(Exception):
    """The instance is bound to another agent's key: the claim is not from whom it says."""

    def __init__(self, instance_id: str) -> None:
        super().__init__(f"instance {instance_id} is bound to another key")
        self.instance_id = instance_id


class Store:
    """The provisioner's memory. Make one with `Store.open`; all methods may raise `StoreError`."""

    store_id: str
    """Random, made once with the schema; in the tags of all that this store launched."""

    write_behind: WriteBehindQueue
    """What has happened and could not be stored yet."""

    def __init__(self, url: str, since: datetime) -> None:
        self.write_behind = WriteBehindQueue()
        self._database = open_database(url)
        self._since = since
        self._is_open = False
        self._silent_since: float | None = None
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="ec2spawner-store"
        )

    @classmethod
    async def open(
        cls,
        url: str = DEFAULT_URL,
        *,
        recent: timedelta = timedelta(hours=1),
        now: datetime,
        agents_at: str = "",
        moved_from: str = "",
    ) -> Store:
        """Open the store at `url`, make or upgrade its schema, and hold it against a second hub.

        `load` gives answered intents younger than `recent` before `now`. `agents_at` is the host
        and port at which agents reach this hub: a store of a hub elsewhere is refused as a copy,
        unless the hub has `moved_from` there; empty looks at nothing.
        Raises `StoreHeldError` while another process holds it, `StoreAwayError` while its server
        does not answer, and `StoreError` when the URL is wrong, the database cannot be used, or
        its schema is newer than this code.
        """
        store = cls(url, now - recent)
        try:
            await store._run(lambda: store._open(agents_at, moved_from))
            store._is_open = True
        except BaseException:
            await asyncio.shield(store.close())
            raise
        return store

    async def hold(self) -> None:
        """Return while this process is the one that may act on what the store says.

        Raises `StoreError` where another hub may have taken it over, or has. A file is held for
        as long as the process lives, also where it cannot be written.
        """
        await self._run(self._database.hold)

    async def load(self) -> Snapshot:
        """All that still matters, see `Snapshot`."""
        return await self._read(lambda connection: queries.snapshot(connection, self._since))

    async def save_lease(self, lease: Lease) -> None:
        """Insert or replace the lease with its events and segments."""

        def write(connection: Connection) -> None:
            _upsert(connection, tables.lease_table, tables.lease_row(lease))
            _replace(connection, tables.event_table, lease.lease_id, tables.event_rows(lease))
            _replace(
                connection,
                tables.segment_table,
                lease.lease_id,
                [tables.segment_row(segment, lease.lease_id) for segment in lease.segments],
            )

        await self._write(write)

    async def save_intent(self, intent: Intent) -> None:
        """Insert or replace: before the call as open, after it with its answer."""
        await self._write(
            lambda connection: _upsert(connection, tables.intent_table, tables.intent_row(intent))
        )

    async def intents(self, client_tokens: Collection[str]) -> tuple[Intent, ...]:
        """The launch calls with these tokens, of any age; unknown tokens are no error."""
        return await self._read(lambda connection: queries.intents(connection, client_tokens))

    async def save_binding(self, binding: Binding) -> None:
        """Bind the instance to the key, for good: the first one wins.

        The same key again is no error. Raises `KeyAlreadyBound` for another.
        """

        def write(connection: Connection) -> None:
            column = tables.binding_table.c
            bound: str | None = connection.scalar(
                select(column.key_sha256).where(column.instance_id == binding.instance_id)
            )
            if bound is None:
                connection.execute(insert(tables.binding_table), [tables.binding_row(binding)])
            elif bound != binding.key_sha256:
                raise KeyAlreadyBound(binding.instance_id)

        await self._write(write)

    async def rebind(self, binding: Binding) -> None:
        """Bind the instance to the key of a new boot, in the place of an earlier boot's."""
        await self._write(
            lambda connection: _upsert(
                connection, tables.binding_table, tables.binding_row(binding)
            )
        )

    async def save_kept(self, kept: Kept) -> None:
        """Insert or replace."""
        await self._write(
            lambda connection: _upsert(connection, tables.kept_table, tables.kept_row(kept))
        )

    async def forget_kept(self, instance_id: str) -> None:
        """The instance is a lease's again, or gone; one that is not kept is no error."""
        column = tables.kept_table.c.instance_id
        await self._write(
            lambda connection: connection.execute(
                delete(tables.kept_table).where(column == instance_id)
            )
        )

    async def save_home(self, home: Home) -> None:
        """Insert or replace. A volume belongs to one home: a second one is a `StoreError`."""
        await self._write(
            lambda connection: _upsert(connection, tables.home_table, tables.home_row(home))
        )

    async def delete_home(self, home_id: str) -> None:
        """Forget a home whose volume is gone; one that is not there is no error."""

        def write(connection: Connection) -> None:
            column = tables.home_table.c
            connection.execute(delete(tables.home_table).where(column.home_id == home_id))

        await self._write(write)

    async def save_overhead(self, segment: Segment, key: str) -> None:
        """Keep a segment that belongs to no lease, in the place of what was kept by its `key`.

        See `core.pricing.money.overhead_key`.
        """

        def write(connection: Connection) -> None:
            column = tables.segment_table.c
            connection.execute(
                delete(tables.segment_table).where(
                    column.lease_id.is_(None),
                    column.instance_id == segment.instance_id,
                    or_(
                        column.overhead_key == key,
                        and_(column.overhead_key.is_(None), column.started_at == segment.start),
                    ),
                )
            )
            connection.execute(
                insert(tables.segment_table), [tables.segment_row(segment, None, key)]
            )

        await self._write(write)

    async def overhead(self, since: datetime) -> tuple[Segment, ...]:
        """Segments of no lease that ended after `since` or have not ended, oldest first."""
        return await self._read(lambda connection: queries.overhead(connection, since))

    async def spent_by_day(
        self, since: datetime, before: datetime
    ) -> Mapping[str, Mapping[date, float | None]]:
        """User -> day in UTC -> USD of the leases that ended from `since` on, before `before`."""
        return await self._read(lambda connection: queries.spent_by_day(connection, since, before))

    async def last_served(self, instance_id: str) -> tuple[str, datetime] | None:
        """Id and end of the instance's last lease that has ended; None where it served none."""
        return await self._read(lambda connection: queries.last_served(connection, instance_id))

    async def start_durations(self, profile: str, limit: int = 30) -> Mapping[Step, float]:
        """Median seconds of each step over the profile's last `limit` starts that got ready.

        Starts that lost an instance on their way are left out: they are not usual.
        """
        return await self._read(
            lambda connection: queries.start_durations(connection, profile, limit)
        )

    async def close(self) -> None:
        """Finish all that was asked for and let go of it. A second call does nothing."""
        if self._thread is None:
            return
        self._is_open = False
        try:
            await self._run(self._database.close)
        finally:
            self._thread.shutdown(wait=False)
            self._thread = None

    # --- in the thread ---

    def _open(self, agents_at: str, moved_from: str) -> None:
        self._database.open()
        column = tables.store_table.c

        def take_over(connection: Connection) -> int:
            upgrade(connection)
            self.store_id, epoch, before = connection.execute(
                select(column.store_id, column.epoch, column.agents_at)
            ).one()
            if before and agents_at and before not in {agents_at, moved_from}:
                raise StoreError(_copied(self._database.name, before, agents_at))
            taken = {"epoch": epoch + 1, "agents_at": agents_at or before}
            connection.execute(update(tables.store_table).values(taken))
            return int(epoch) + 1

        self._database.taken_over(self._database.transaction(take_over, writes=True))

    async def _write(self, work: Callable[[Connection], object]) -> None:
        await self._run(lambda: self._database.transaction(work, writes=True))

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(lambda: self._database.transaction(work, writes=False))

    async def _run(self, work: Callable[[], T]) -> T:
        """Run in the store's thread; what a database can raise comes out as `StoreError`."""
        try:
            return await self._run_explained(work)
        except StoreError:
            metrics.STORE_ERRORS.inc()
            raise

    async def _run_explained(self, work: Callable[[], T]) -> T:
        try:
            answer = await self._in_thread(work)
        except (StoreAwayError, StoreHeldError) as error:
            self._silent(str(error))
            raise
        except TimeoutError as error:
            said = (
                f"{self._database.name} has not answered for {ANSWER_SECONDS:.0f} s: is its disk "
                "full, broken or on a network? What was asked for may still happen"
            )
            self._silent(said)
            raise StoreError(said) from error
        except SchemaTooNewError as error:
            raise StoreError(
                f"{self._database.name} was written by a newer ec2spawner (schema "
                f"{error.revision}): install that version again, or name another file or database"
            ) from error
        except ForeignSchemaError as error:
            raise StoreError(
                f"{self._database.name} holds the tables of another program, such as JupyterHub "
                "itself: give the store a file or a database of its own"
            ) from error
        except (SQLAlchemyError, OSError, ValueError) as error:
            said = self._database.explained(error)
            if not isinstance(error, IntegrityError | ValueError):
                self._silent(said)
            raise StoreError(said) from error
        self._answered()
        return answer

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise StoreError("the store is closed")
        async with asyncio.timeout(ANSWER_SECONDS):
            # Shielded: a write that waits for its turn would be dropped with its caller.
            return await asyncio.shield(
                asyncio.get_running_loop().run_in_executor(self._thread, work)
            )

    def _silent(self, said: str) -> None:
        """Say once that it fails; whoever asked says what could not be done."""
        if self._silent_since is None and self._is_open:
            self._silent_since = time.monotonic()
            log.error(
                "%s. Running servers keep running; none can be started until it is fixed", said
            )

    def _answered(self) -> None:
        if self._silent_since is not None:
            seconds = time.monotonic() - self._silent_since
            self._silent_since = None
            log.warning("%s answers again, after %.0f s", self._database.name, seconds)


def _copied(name: str, before: str, now: str) -> str:
    return (
        f"{name} is of a hub at {before}, where the agents of its servers look for it, and this "
        f"hub is at {now}. Is it a copy? Then give this hub an empty store: both would act on the "
        "same instances. Has the hub moved for good? Then say so: "
        f'c.EC2Spawner.hub_moved_from = "{before}"'
    )


def open_database(url: str) -> Database:
    """The database for a URL of SQLAlchemy's; raises `StoreError` for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            f"the store's URL is not one of SQLAlchemy's: write it like {DEFAULT_URL}"
        ) from None  # it may quote the password
    match parsed.get_backend_name():
        case "sqlite":
            return SQLite(parsed)
        case "postgresql":
            return PostgreSQL(parsed)
        case other:
            raise StoreError(
                f"a store on {other} is not supported: write a file's URL, like {DEFAULT_URL}, or "
                "a PostgreSQL database's, like postgresql://ec2spawner@db.example.org/ec2spawner"
            )


def _upsert(connection: Connection, table: Table, row: tables.Row) -> None:
    key = table.primary_key.columns[0]
    if connection.execute(_update_of(table), {**row, "of_key": row[key.name]}).rowcount == 0:
        connection.execute(_insert_into(table), row)


def _replace(
    connection: Connection, table: Table, lease_id: str, new: Sequence[tables.Row]
) -> None:
    connection.execute(_delete_from(table), {"of_lease": lease_id})
    if new:
        connection.execute(_insert_into(table), new)


# Made once each: to make one, and to find it among those compiled, takes longer than to execute it.


@cache
def _update_of(table: Table) -> Update:
    return update(table).where(table.primary_key.columns[0] == bindparam("of_key"))


@cache
def _delete_from(table: Table) -> Delete:
    return delete(table).where(table.c.lease_id == bindparam("of_lease"))


@cache
def _insert_into(table: Table) -> Insert:
    return insert(table)

"""A store in a PostgreSQL database, held by an advisory lock.

One session does it all: the lock belongs to the session that writes. When the connection is lost,
the lock is lost with it, and so is every transaction that was not committed. A new session takes
the lock again before it writes; where another hub has had it meanwhile, this process knows an
older state than the database, and never writes again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .. import tables
from .database import StoreAwayError, StoreError, StoreHeldError, explained

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

CONNECT_SECONDS: Final = 5
"""How long a connection may take; libpq takes whole seconds, 2 at least."""

STATEMENT_SECONDS: Final = 10
"""The server ends a statement that takes longer, also one that waits for somebody's lock."""

DEAD_PEER_SECONDS: Final = 15
"""A side that has not acknowledged anything for so long counts as gone, for both sides: so a hub
whose machine vanished does not hold its store for hours."""

RETRY_SECONDS: Final = 1.0
"""After a connection in vain, so long until the next: meanwhile everything fails at once instead
of waiting in a row."""

_LOCK: Final = 0x0EC25
"""First half of the advisory lock's key; the second is the schema's name, hashed."""

_OUR_LOCK: Final = (
    "locktype = 'advisory' AND granted AND classid = :lock "
    "AND objid::bigint = hashtext(current_schema())::bigint & 4294967295 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Which row of `pg_locks` it is."""

T = TypeVar("T")


class PostgreSQL:
    """See `Database`. Raises `StoreError` where the driver is not installed."""

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername="postgresql+psycopg")
        shown = url.set(query={}).render_as_string(hide_password=True)
        self.name = f"the store {shown}"
        try:
            import psycopg
        except ImportError as error:
            raise StoreError(
                f"{self.name} needs PostgreSQL's driver for Python ({error}): "
                'pip install "ec2spawner[postgresql]"'
            ) from error
        self._psycopg: Any = psycopg
        self._engine: Engine | None = None
        self._session: Connection | None = None
        self._backend = 0
        """The server's process of our session: it, and nobody else, has the lock."""
        self._epoch: int | None = None
        self._fenced = False
        self._failed: tuple[float, str] | None = None
        """When and how the last connection failed; None once one has worked."""

    def open(self) -> None:
        """Connect and take the advisory lock. Raises `StoreHeldError` if another hub has it."""
        self._engine = self._made_engine()
        self._connect()

    def _made_engine(self) -> Engine:
        engine = create_engine(
            self._url,
            hide_parameters=True,
            poolclass=NullPool,
            connect_args={
                "connect_timeout": CONNECT_SECONDS,
                "tcp_user_timeout": DEAD_PEER_SECONDS * 1000,
                "keepalives_idle": 5,
                "keepalives_interval": 5,
                "keepalives_count": 2,
                "application_name": f"ec2spawner on {socket.gethostname()}, process {os.getpid()}",
            },
        )
        event.listen(engine, "connect", self._prepare_connection)
        return engine

    def taken_over(self, epoch: int) -> None:
        """Remember the epoch of this holder, to notice another one in between."""
        self._epoch = epoch

    def hold(self) -> None:
        """Raise `StoreError` unless this process still holds the lock."""
        self.transaction(lambda connection: None, writes=False)

    def transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        """Run `work`, reconnecting once if the session was lost; commits or rolls back."""
        if self._session is not None:
            try:
                return self._transaction(self._session, work)
            except DBAPIError:
                if not self._is_lost():
                    raise
        # A server that was restarted is noticed by the first statement: what was asked for is done
        # again, in a new session.
        return self._transaction(self._connect(), work)

    def explained(self, error: Exception) -> str:
        """The driver's error and what to do, without the password."""
        return explained(self.name, error, _FIXES)

    def close(self) -> None:
        """Give up the lock and disconnect; up to `DEAD_PEER_SECONDS` where the server is gone.

        The lock is released by name: the server ends a session, and its locks, a moment after its
        client has left, and a hub that is restarted at once would find it held.
        """
        if self._session is not None:
            unlock = text("SELECT pg_advisory_unlock(:lock, hashtext(current_schema()))")
            with contextlib.suppress(SQLAlchemyError), self._session.begin():
                self._session.execute(unlock, {"lock": _LOCK})
        self._forget_session()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def probe(self) -> str:
        """What answers there, in words, after a look that holds and changes nothing.

        Raises `StoreError` where the store could not be opened there; a hub that holds it is none.
        """
        engine = self._made_engine()
        try:
            with engine.connect() as session:
                return _described(session, self.name)
        except DBAPIError as error:
            raise StoreError(self.explained(error)) from error
        finally:
            engine.dispose()

    def peek(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction that only reads, whoever holds the database."""
        engine = self._made_engine()
        try:
            with engine.connect().execution_options(postgresql_readonly=True) as session:
                return work(session)
        finally:
            engine.dispose()

    def is_held(self) -> bool:
        """Whether a session holds it: a hub runs."""
        return self.peek(
            lambda session: bool(
                session.scalar(
                    text(f"SELECT EXISTS (SELECT 1 FROM pg_locks WHERE {_OUR_LOCK})"),  # noqa: S608
                    {"lock": _LOCK},
                )
            )
        )

    # --- the session ---

    def _transaction(self, session: Connection, work: Callable[[Connection], T]) -> T:
        with session.begin():
            backend = session.scalar(text("SELECT pg_backend_pid()"))
            if backend != self._backend:
                raise StoreError(
                    f"{self.name} is behind a connection pooler that shares sessions, so its lock "
                    "holds nothing: name the server itself, or a pool in session mode"
                )
            return work(session)

    def _connect(self) -> Connection:
        """A session that holds the lock."""
        if self._engine is None:
            raise StoreError("the store is closed")
        if self._fenced:
            raise self._fence()
        if self._failed and time.monotonic() - self._failed[0] < RETRY_SECONDS:
            raise StoreAwayError(self._failed[1])
        self._forget_session()
        try:
            session = self._engine.connect()
        except DBAPIError as error:
            said = self.explained(error)
            self._failed = (time.monotonic(), said)
            raise StoreAwayError(said) from error
        try:
            self._take_lock(session)
        except BaseException:
            session.close()
            raise
        self._failed = None
        self._session = session
        return session

    def _take_lock(self, session: Connection) -> None:
        with session.begin():
            taken = session.scalar(
                text("SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))"),
                {"lock": _LOCK},
            )
            if not taken:
                raise StoreHeldError(
                    f"another hub holds {self.name} ({_holder(session)}): two hubs must not share "
                    "a store; stop that one, or give this one a database of its own"
                )
            self._backend = session.scalar(text("SELECT pg_backend_pid()"))
            if self._epoch is not None:
                now = session.scalar(select(tables.store_table.c.epoch))
                if now != self._epoch:
                    self._fenced = True
                    raise self._fence()

    def _fence(self) -> StoreError:
        return StoreError(
            f"{self.name} was held by another hub while this one had lost its connection: what "
            "this hub knows is old, so it writes nothing any more. Restart it, once the other "
            "one has ended"
        )

    def _is_lost(self) -> bool:
        """True where the session is gone; then it is forgotten: SQLAlchemy would silently open
        another one in its place, without the lock."""
        session = self._session
        if session is None:
            return True
        if not session.invalidated and not session.connection.driver_connection.closed:  # type: ignore[union-attr]
            return False
        self._forget_session()
        return True

    def _forget_session(self) -> None:
        if self._session is not None:
            try:
                self._session.close()
            except SQLAlchemyError:
                self._session.invalidate()
            self._session = None

    def _prepare_connection(self, connection: Any, _record: ConnectionPoolEntry) -> None:
        connection.adapters.register_dumper(str, _without_nul(self._psycopg))
        settings = {
            "timezone": "UTC",
            "statement_timeout": f"{STATEMENT_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{STATEMENT_SECONDS}s",
            # An intent is stored before money is spent: it must survive a power cut.
            "synchronous_commit": "on",
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "2",
            "tcp_user_timeout": f"{DEAD_PEER_SECONDS}s",
        }
        with connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()


def _described(session: Connection, name: str) -> str:
    version = session.scalar(text("SHOW server_version"))
    where = f"PostgreSQL {version}, {name.removeprefix('the store ')}"
    if session.scalar(text("SELECT to_regclass('store')")) is not None:
        return where
    if not session.scalar(
        text("SELECT has_schema_privilege(current_schema(), 'CREATE') AND NOT pg_is_in_recovery()")
    ):
        raise StoreError(
            f"{name} lets this role make no tables: make it the owner of the database, and name "
            "the primary server"
        )
    return f"{where}, filled by the first start"


def _holder(session: Connection) -> str:
    """Who holds the lock, as far as this role may know."""
    row = session.execute(
        text(
            "SELECT application_name, client_addr "  # noqa: S608
            f"FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE {_OUR_LOCK}"
        ),
        {"lock": _LOCK},
    ).first()
    if row is None:
        return "it may be just ending"
    name, address = row[0] or "of a role that this one may not look at", row[1]
    return f"{name}, from {address}" if address else str(name)


def _without_nul(psycopg: Any) -> type:
    """PostgreSQL's text knows no NUL, and what an instance says is any text: it must not be what
    keeps a lease from being stored."""

    class WithoutNul(psycopg.types.string.StrDumper):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))

    return WithoutNul


_FIXES: Final = (
    ("password authentication failed", "correct the password in the URL or in ~/.pgpass"),
    ("no password supplied", "write the password in the URL or in ~/.pgpass"),
    ("no pg_hba.conf entry", "allow the hub's address and role in the server's pg_hba.conf"),
    ("does not exist", "create the role and the database with createuser and createdb"),
    ("permission denied", "make the hub's role the owner of the database"),
    ("connection refused", "start the database server, or correct host and port"),
    ("resolve host", "correct the host's name"),
    ("timeout expired", "correct host and port, or repair the network between hub and database"),
    ("statement timeout", "another session locks the store's tables, or the server is overloaded"),
    ("starting up", "wait until the server has started"),
    ("shutting down", "start the database server"),
    ("terminating connection", "start the database server"),
    ("server closed the connection", "start the database server"),
    ("too many clients", "let the server take more connections: max_connections"),
    ("remaining connection slots", "let the server take more connections: max_connections"),
    ("no space left", "make room on the server's disk"),
    ("read-only transaction", "name the primary server, not a copy of it"),
)

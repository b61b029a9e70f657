"""What the store requires of a database, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, StatementError

T = TypeVar("T")


class StoreError(Exception):
    """The store cannot be opened, read or written; the message says how to fix it."""


class StoreHeldError(StoreError):
    """Another process holds the store: it may be a hub that is shutting down."""


class StoreAwayError(StoreError):
    """The database server does not answer: it may be starting."""


class StoreTimeoutError(StoreError):
    """The database has not answered in time; what was asked for may still happen."""


class ValueNotStorableError(StoreError):
    """A value that the caller passed has no place in the database, which itself works."""


class Database(Protocol):
    """One database, held by one process. All methods block, and run in the store's one thread.

    They raise `StoreError`, what SQLAlchemy raises, `OSError` and `ValueError`.
    """

    name: str
    """For messages; without password."""

    def open(self) -> None:
        """Connect and hold the database against every other hub. Raises `StoreHeldError`."""

    def taken_over(self, epoch: int) -> None:
        """This process is the store's holder number `epoch`, and remains it until another process
        becomes holder."""

    def hold(self) -> None:
        """Return only if this process still holds the database. Raises `StoreError`."""

    def transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        """Do `work` in a transaction that cannot commit unless the database is still held.

        It may be repeated if the connection was lost.
        """

    def peek(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction that only reads, without holding the database."""

    def is_held(self) -> bool:
        """Whether another process holds the database: a hub runs."""

    def explained(self, error: Exception) -> str:
        """One line for the admin: what failed and how to fix it."""

    def close(self) -> None:
        """Release the database. Never raises; a second call does nothing."""


def refused_value(error: Exception) -> str | None:
    """Why a value of a statement was refused, without the value; None for any other error.

    A value that SQLAlchemy cannot convert is a `StatementError`, whose text has the statement and
    its values; a number that the driver cannot convert is an `OverflowError`.
    """
    if isinstance(error, StatementError) and isinstance(error.orig, ValueError | OverflowError):
        return f"a value cannot be stored: {error.orig}"
    if isinstance(error, DataError | OverflowError):
        return f"a value cannot be stored ({type(error).__name__})"
    return None


def refuses_only_writes(error: Exception) -> bool:
    """Whether the database may still be readable: its disk is full or broken, or it is read-only.

    After any other error, such as a lost connection or a lock, a read shows that it works again.
    """
    said = _cause(error)[1].lower()
    return any(sign in said for sign in _ONLY_WRITES)


def explained(name: str, error: Exception, fixes: tuple[tuple[str, str], ...]) -> str:
    """The database's error message and the first fix whose sign it contains.

    Never a statement's values, which are personal data.
    """
    cause, said = _cause(error)
    fix = next((fix for sign, fix in fixes if sign in said.lower()), "see the hub's log")
    return f"{name} failed ({type(cause).__name__}: {said}): {fix}"


def _cause(error: Exception) -> tuple[BaseException, str]:
    """The driver's error and its message in one line, without the statement."""
    cause = error.orig if isinstance(error, StatementError) and error.orig is not None else error
    return cause, " ".join(str(cause).split())


_ONLY_WRITES: Final = (
    "disk is full",
    "no space left",
    "disk i/o",
    "readonly database",
    "read-only transaction",
)
"""Parts of the messages of SQLite and PostgreSQL."""

"""One thread for all work on a database: the event loop is never blocked, and order is kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ...model import metrics
from ..migrations import ForeignSchemaError, SchemaTooNewError
from .database import (
    Database,
    StoreAwayError,
    StoreError,
    StoreHeldError,
    StoreTimeoutError,
    ValueNotStorableError,
    refused_value,
    refuses_only_writes,
)

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 30.0
"""Timeout for a piece of work: longer than any wait of the database's own."""

T = TypeVar("T")


class DatabaseThread:
    """Runs work on one database, in the order of the calls; each error says how to fix it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="ec2spawner-store"
        )
        self.logs_failures = False
        """Off while the store is being opened or closed: its caller reports the error."""
        self._failing_since: float | None = None
        """On the monotonic clock, in seconds."""
        self._is_read_only = False
        """A full disk can be read and accepts no write, so only a write shows that it has room."""

    async def run(self, work: Callable[[], T], *, writes: bool = True) -> T:
        """Do the work after all earlier work. Raises `StoreError` for all that a database raises.

        A caller that is cancelled, or has timed out, does not stop the work.
        """
        try:
            return await self._run_explained(work, writes)
        except StoreError as error:
            if not isinstance(error, ValueNotStorableError):
                metrics.STORE_ERRORS.inc()
            raise

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Do the work in one transaction, as `run` does: after a crash all of it is there, or
        nothing. It may be repeated if the connection was lost."""
        return await self.run(lambda: self._database.transaction(work, writes=True))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """The same for work that changes nothing."""
        return await self.run(lambda: self._database.transaction(work, writes=False), writes=False)

    async def _run_explained(self, work: Callable[[], T], writes: bool) -> T:
        try:
            result = await self._in_thread(work)
        except (StoreAwayError, StoreHeldError) as error:
            self._log_failure(str(error))
            raise
        except TimeoutError as error:
            said = (
                f"{self._database.name} has not answered for {ANSWER_SECONDS:.0f} s: is its disk "
                "full, broken or on a network? What was asked for may still happen"
            )
            self._log_failure(said)
            raise StoreTimeoutError(said) from error
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
        except (SQLAlchemyError, OSError, ValueError, OverflowError) as error:
            if (refused := refused_value(error)) is not None:
                raise ValueNotStorableError(f"{self._database.name}: {refused}") from error
            said = self._database.explained(error)
            if not isinstance(error, IntegrityError | ValueError):
                self._is_read_only |= refuses_only_writes(error)
                self._log_failure(said)
            raise StoreError(said) from error
        self._log_recovery(writes)
        return result

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._executor is None:
            raise StoreError("the store is closed")
        done = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # Shielded: a write that waits for its turn would be dropped with its caller.
                return await asyncio.shield(done)
        except TimeoutError:
            # Where the event loop itself was blocked for so long, as JupyterHub's start with a
            # thousand servers may block it, the database has answered meanwhile.
            if done.done() and not done.cancelled():
                return done.result()
            raise

    def _log_failure(self, said: str) -> None:
        """Log once that it fails; callers log what could not be done."""
        if self._failing_since is None and self.logs_failures:
            self._failing_since = time.monotonic()
            log.error(
                "%s. Running servers keep running; none can be started until it is fixed", said
            )

    def _log_recovery(self, writes: bool) -> None:
        self._is_read_only &= not writes
        if self._failing_since is not None and not self._is_read_only:
            seconds = time.monotonic() - self._failing_since
            self._failing_since = None
            log.warning("%s answers again, after %.0f s", self._database.name, seconds)

    async def close(self) -> None:
        """Finish all work, and release the database. A second call does nothing."""
        if self._executor is None:
            return
        self.logs_failures = False
        try:
            await self.run(self._database.close)
        finally:
            self._executor.shutdown(wait=False)
            self._executor = None

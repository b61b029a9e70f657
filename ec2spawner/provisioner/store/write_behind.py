"""Writes that are retried until the store accepts them: the only place that writes late.

For what holds whether it is stored or not: a change of a lease, a response of EC2's, time that was
paid for. Each pass retries. An action that must not happen unless it is stored, such as a launch,
is not written through this queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from .databases.database import StoreAwayError, StoreError, StoreHeldError, StoreTimeoutError

log = logging.getLogger(__name__)

STORE_FAILURES = (StoreAwayError, StoreHeldError, StoreTimeoutError)
"""With these every other write would fail too, and each would take its time."""

Write = Callable[[], Awaitable[None]]


class WriteBehindQueue:
    """The latest write of each subject, until it is stored.

    A caller that is cancelled does not cancel its write.
    """

    def __init__(self) -> None:
        self._writes: dict[str, Write] = {}
        """By subject, oldest first: a newer write replaces an older one."""
        self._in_progress: dict[Write, asyncio.Task[None]] = {}

    def is_pending(self, subject: str) -> bool:
        """Whether the latest write of the subject is not stored yet."""
        return subject in self._writes

    def later(self, subject: str, write: Write) -> None:
        """Leave the write to the next pass."""
        self._writes[subject] = write

    def begin(self, subject: str, write: Write) -> asyncio.Task[None]:
        """Begin to write now, before all that is written later. The task raises `StoreError`; then
        each pass retries."""
        self._writes[subject] = write
        return self._begun(subject, write)

    async def now(self, subject: str, write: Write) -> None:
        """Write now. Raises `StoreError`; then each pass retries."""
        await asyncio.shield(self.begin(subject, write))

    async def now_or_later(self, subject: str, write: Write) -> None:
        """The same; a failure is logged instead of raised."""
        try:
            await self.now(subject, write)
        except StoreError as error:
            log.warning("%s is not stored yet: %s", subject, error)

    async def flush(self, subject: str) -> None:
        """Return once the latest write of the subject is stored. Raises `StoreError`."""
        if write := self._writes.get(subject):
            await self._do(subject, write)

    async def retry(self) -> None:
        """Try everything once more, oldest first; what fails is logged and stays.

        A record that the store refuses holds up no other one. Where the store itself fails, the
        rest is left to the next try. What is in progress is left to its caller: a pass does not
        wait for it.
        """
        failures: list[str] = []
        for subject in list(self._writes):
            write = self._writes.get(subject)
            if write is None or write in self._in_progress:
                continue
            try:
                await self._do(subject, write)
            except STORE_FAILURES as error:
                failures.append(f"{subject}: {error}")
                break
            except StoreError as error:
                failures.append(f"{subject}: {error}")
            except Exception as error:
                log.exception("%s could not be written", subject)
                failures.append(f"{subject}: {error!r}")
        if failures:
            log.error("%d records are not stored yet; %s", len(self._writes), failures[0])

    async def drain(self) -> None:
        """Try everything once more, and wait for what is in progress."""
        await self.retry()
        await asyncio.gather(*self._in_progress.values(), return_exceptions=True)

    async def _do(self, subject: str, write: Write) -> None:
        await asyncio.shield(self._begun(subject, write))

    def _begun(self, subject: str, write: Write) -> asyncio.Task[None]:
        task = self._in_progress.get(write)
        if task is None:
            task = self._in_progress[write] = asyncio.create_task(self._write(subject, write))
        return task

    async def _write(self, subject: str, write: Write) -> None:
        try:
            await write()
        finally:
            del self._in_progress[write]
        if self._writes.get(subject) is write:
            del self._writes[subject]

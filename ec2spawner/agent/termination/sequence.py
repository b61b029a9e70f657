"""The end of a lease on its instance, step by step, each within its time.

Documents, then the user's hook and the variables, if the stop or a spot notice asks for them, then
a folder to S3, then the notebook's processes, then the home. See `core.sleep.step_budgets` for the
times.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from ...core.sleep.step_budgets import HOME_SECONDS, step_budgets
from ...wire import (
    DocumentsSaved,
    SavedSession,
    SessionSaved,
    SleepOrder,
    SleepProgress,
    StepResult,
    Stop,
    Trigger,
)
from ..lease_status import LeaseStatus
from ..mounts.home import HomeError
from ..mounts.mounts import Mounts
from ..notebook_server.certificates import NotebookCertificates
from ..notebook_server.local_socket import LocalSocket
from ..notebook_server.process import NotebookProcess
from .session_orders import SLACK_SECONDS, SessionOrders
from .steps import StepError, Steps
from .upload import UPLOAD_SECONDS

log = logging.getLogger(__name__)


class EndSequence:
    """Saves what is to be saved, ends the user's processes, releases the mounts."""

    def __init__(
        self,
        status: LeaseStatus,
        notebook: NotebookProcess,
        mounts: Mounts,
        push: Callable[[], None],
        upload: Callable[[float], Awaitable[StepResult | None]],
    ) -> None:
        """`push` shows the status to the notebook extension; `upload` takes a folder to S3 within
        so many seconds."""
        self._status = status
        self._notebook = notebook
        self._mounts = mounts
        self._push = push
        self._upload = upload
        self._saved = asyncio.Event()
        self._unsaved = ""
        self._session_unwanted = asyncio.Event()
        self._orders = SessionOrders(self._order)
        self._steps = Steps()
        self._session_end = 0.0
        """By the monotonic clock."""
        self._notice: datetime | None = None
        """The one that `_session_end` allows for."""
        self.session: SavedSession | None = None
        """What sleeps in the home, once `save` has returned."""
        self.has_uploaded = False
        """Whether there was a folder to upload, whatever became of it."""
        self.is_released = False
        """Whether `release_home` has unmounted the home, or found none mounted."""

    def documents_saved(self, said: DocumentsSaved) -> None:
        """The extension reports that every open page has saved what it could."""
        self._unsaved = said.unsaved
        self._saved.set()

    def hear(self, said: SleepProgress | SessionSaved) -> None:
        """Apply what the extension says of the session."""
        self._orders.hear(said)

    def follow(self, stop: Stop) -> None:
        """Apply the stop as the hub repeats it: a session that is no longer wanted is not saved
        further."""
        if stop.sleep is None:
            self._session_unwanted.set()

    async def save(self, line: LocalSocket, off: asyncio.Future[Any]) -> None:
        """After a stop: documents, then the session if that is to sleep.

        Returns early if the notebook ends, or with `off`: the instance powers itself off.
        """
        stop = self._status.stop
        if stop is None or not line.has_extension:
            return
        self._notice = self._status.interruption_at
        budgets = step_budgets(stop.save_seconds, self._status.reclaimed_in())
        ended = asyncio.ensure_future(self._notebook.wait())
        unwanted = asyncio.ensure_future(self._session_unwanted.wait())
        try:
            await self._steps.take(
                "documents", _unless(self._until_documents(), ended, off), budgets.documents
            )
            stop = self._status.stop or stop  # its user may have chosen anew
            may_save = stop.save_seconds > 0 and self._status.max_session_bytes > 0
            if stop.sleep is not None and may_save and not ended.done():
                self._session_end = time.monotonic() + budgets.session
                saving = self._save_session(stop.sleep)
                # Longer than the wait itself, which ends by the clock of a notice, too.
                limit = budgets.session + 2 * SLACK_SECONDS
                await self._steps.take("session", _unless(saving, ended, off, unwanted), limit)
            if stop.reason == "interruption":
                await _unless(self._take_upload(), ended, off)
        finally:
            for waiting in (ended, unwanted):
                waiting.cancel()
            await asyncio.gather(ended, unwanted, return_exceptions=True)

    async def end_notebook(self, certificates: NotebookCertificates | None) -> None:
        """End every process of the user."""
        budgets = step_budgets(0.0, self._status.reclaimed_in())
        began = time.monotonic()
        await self._notebook.stop(budgets.notebook)
        if certificates is not None:
            await asyncio.to_thread(certificates.remove)
        log.info("the notebook ended within %.1f s", time.monotonic() - began)

    async def release_home(self) -> str:
        """Flush and unmount the home once the user's processes have ended; what went wrong, or
        nothing."""
        began = time.monotonic()
        try:
            await self._mounts.release()
        except HomeError as error:
            log.error("%s", error)
            return str(error)
        self.is_released = True
        took = time.monotonic() - began
        log.log(
            logging.WARNING if took > HOME_SECONDS else logging.INFO,
            "the home was flushed and unmounted within %.1f s",
            took,
        )
        await self._notebook.end_daemons()
        return ""

    def summary(self) -> str:
        """What became of the steps that save something; empty where there was none."""
        return self._steps.summary()

    @property
    def has_problems(self) -> bool:
        """Whether something could not be saved that its user should know of."""
        return self._steps.has_problems

    def _seconds_left(self) -> float:
        """Of the session's time. A notice that comes meanwhile shortens it."""
        now, notice = time.monotonic(), self._status.interruption_at
        if notice != self._notice:
            self._notice = notice
            left = step_budgets(max(self._session_end - now, 0.0), self._status.reclaimed_in())
            self._session_end = now + left.session
        return self._session_end - now

    async def _until_documents(self) -> None:
        """Raises `StepError`."""
        await self._saved.wait()
        if self._unsaved:
            raise StepError(self._unsaved)

    async def _take_upload(self) -> None:
        left = step_budgets(UPLOAD_SECONDS, self._status.reclaimed_in()).session
        try:
            async with asyncio.timeout(left + SLACK_SECONDS):  # a home that does not respond
                result = await self._upload(left)
        except TimeoutError:
            result = StepResult(step="upload", outcome="late", seconds=left + SLACK_SECONDS)
        if result is not None:
            self._steps.add(result)
            self.has_uploaded = True

    async def _save_session(self, trigger: Trigger) -> None:
        max_bytes = self._status.max_session_bytes
        self.session = await self._orders.save(trigger, max_bytes, self._seconds_left)
        for step in self._orders.steps:
            self._steps.add(step)
        if why_not := self._orders.why_not:
            raise StepError(why_not)

    def _order(self, order: SleepOrder) -> None:
        self._status.sleep = order
        self._push()


async def _unless(work: Awaitable[Any], *others: asyncio.Future[Any]) -> bool:
    """Wait for the work, or for one of the others; whether it was the work."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, *others}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

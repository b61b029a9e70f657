"""Executes the work of a run, and reports on it until the hub knows how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Final, Literal

from ..agent_socket.notices import watch_notices
from ..core.text.full_disk import why_not_written
from ..wire import RunReport, RunWork
from .activity import HOLD_SECONDS, report_activity
from .execution import CannotExecute, Execution, Outcome, in_words
from .hub_reports import HubReports
from .notebook_run import NotebookRun
from .script_run import ScriptRun
from .threads import in_thread

FIRST_SECONDS: Final = 2.0
"""From the start to the first report of progress."""

INTERVAL_SECONDS: Final = 5.0
"""Between two of them."""

ENCODING_SHARE: Final = 0.05
"""Of the time may be spent on encoding results: a large one is reported less often."""

INTERRUPT_SECONDS: Final = 3.0
"""For a kernel or script that is interrupted: the agent gives this process 10 s."""

CANCEL_SECONDS: Final = 1.0
"""For tasks that are cancelled."""

LAST_ENCODING_SECONDS: Final = 2.0
"""For the result in the last report before this process ends, which has none otherwise."""

LAST_REPORT_SECONDS: Final = 3.0
"""For the last report before this process ends."""

MAX_CELLS: Final = 100_000
"""That a report can count."""

log = logging.getLogger(__name__)


def execution_of(work: RunWork, home: Path) -> Execution:
    """How this kind of document is executed in the home."""
    return ScriptRun(work, home) if work.kind == "script" else NotebookRun(work, home)


class Executor:
    """One run on this instance."""

    def __init__(self, execution: Execution, path: str, hub: HubReports, socket: str) -> None:
        """`path` is that of the document."""
        self._work = execution
        self._path = path
        self._hub = hub
        self._socket = socket
        self._due = asyncio.Event()
        """A report of progress is due at once."""
        self._is_over = False

    async def run(self, stopped: asyncio.Event) -> None:
        """Return once the hub knows how the run ended; or has its last state, as far as it could
        be reported, after `stopped`. No process of the run is left then."""
        running = asyncio.create_task(self._outcome())
        stopping = asyncio.create_task(stopped.wait())
        reporting = asyncio.create_task(self._report_progress())
        watching = asyncio.create_task(watch_notices(self._socket, self._flush))
        working = asyncio.create_task(report_activity(self._socket, self._path))
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._stop(running, reporting)
                return
            await self._work.close()
            await self._until_reported(reporting, stopping)
            asyncio.get_running_loop().call_later(HOLD_SECONDS, working.cancel)
            await self._report_end(running.result(), stopping)
        finally:
            tasks = (running, stopping, reporting, watching, working)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)

    async def _outcome(self) -> Outcome:
        try:
            return await self._work.run()
        except CannotExecute as error:
            return Outcome(False, in_words(str(error)))
        except OSError as error:
            why = why_not_written(error)
            return Outcome(False, in_words(f"The home of this run cannot be used: {why}"))
        except Exception as error:
            log.exception("the executor failed")
            return Outcome(False, in_words(f"The executor failed: {type(error).__name__}: {error}"))

    async def _stop(self, running: asyncio.Task[Outcome], reporting: asyncio.Task[None]) -> None:
        """Interrupt what runs, and report how far it came."""
        log.info("this run is interrupted")
        await self._work.interrupt()
        await asyncio.wait({running}, timeout=INTERRUPT_SECONDS)
        running.cancel()
        reporting.cancel()
        await asyncio.wait({running, reporting}, timeout=CANCEL_SECONDS)
        await asyncio.gather(self._report_last(), self._work.close())

    async def _report_last(self) -> None:
        last = await self._report("progress", encoding_seconds=LAST_ENCODING_SECONDS)
        await self._hub.progress(last, LAST_REPORT_SECONDS)

    async def _until_reported(
        self, reporting: asyncio.Task[None], stopping: asyncio.Task[bool]
    ) -> None:
        """Wait for a report that is under way: it must not come after that of the end."""
        self._is_over = True
        self._due.set()
        await asyncio.wait({reporting, stopping}, return_when=asyncio.FIRST_COMPLETED)

    async def _report_end(self, outcome: Outcome, stopping: asyncio.Task[bool]) -> None:
        log.info("this run has ended: %s", outcome.message or "succeeded")
        report = await self._report("end", outcome)
        delivery = asyncio.create_task(self._hub.end(report))
        await asyncio.wait({delivery, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not delivery.done():
            delivery.cancel()
            await self._hub.end_now(report, LAST_REPORT_SECONDS)

    async def _flush(self, seconds: float) -> None:
        """EC2 reclaims the instance in so many seconds: report now what there is."""
        self._due.set()

    async def _report_progress(self) -> None:
        """Report whenever something has changed, until it is over."""
        pause = FIRST_SECONDS
        reported = 0
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._due.wait()
            except TimeoutError:
                pass
            if self._is_over:
                return
            self._due.clear()
            pause = INTERVAL_SECONDS
            changes = self._work.progress().changes
            if changes == reported:
                continue
            began = time.monotonic()
            report = await self._report("progress")
            pause = max(pause, (time.monotonic() - began) / ENCODING_SHARE)
            if await self._hub.progress(report):
                reported = changes

    async def _report(
        self,
        action: Literal["progress", "end"],
        outcome: Outcome | None = None,
        encoding_seconds: float | None = None,
    ) -> RunReport:
        progress = self._work.progress()
        encoding = in_thread(self._work.result())
        try:
            result = await asyncio.wait_for(encoding, encoding_seconds)
        except TimeoutError:
            result = ""  # what was sent before stays
        return RunReport(
            action=action,
            cells_done=min(progress.cells_done, MAX_CELLS),
            cells_total=min(progress.cells_total, MAX_CELLS),
            message=in_words(progress.message if outcome is None else outcome.message),
            result=result,
            succeeded=outcome is not None and outcome.succeeded,
        )

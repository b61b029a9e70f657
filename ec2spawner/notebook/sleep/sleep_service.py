"""Sleep and wake of this server: carries out the agent's orders, and wakes at the start."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp

from ...core.sleep.bounded_session import bounded
from ...core.sleep.step_budgets import hook_seconds
from ...core.text.full_disk import why_not_written
from ...sleep.storage import folder as folders
from ...wire import SavedSession, SessionSaved, SleepOrder, SleepProgress, StepResult, Wake
from ...wire.sleep import KEEP_SECONDS, WAKE
from . import session_record
from .hooks import hooks, run_hooks
from .lineage import lineage, runs
from .restarting import Asked
from .running_kernels import running_kernels
from .saving import SessionSaving
from .session_record import SessionRecord
from .waking import Waking

PROGRESS_SECONDS = 0.5
"""Between two reports of progress to the agent."""

RESEND_SECONDS = 0.05


class SleepService:
    """Carries out one order at a time.

    `is_busy` and `running_cell` say what a kernel runs; `save_missed` writes the outputs of closed
    pages into their notebooks, in bounded time; `asked` hears of cells that run again; `send`
    passes a message to the agent, and returns False if it cannot now; `changed` is called when
    `saving` or `wake` has changed; `log` is the server's.
    """

    def __init__(
        self,
        server: ServerApp,
        is_busy: Callable[[str], bool],
        running_cell: Callable[[str], str],
        save_missed: Callable[[], Awaitable[object]],
        asked: Asked,
        send: Callable[[SleepProgress | SessionSaved], bool],
        changed: Callable[[], None],
        log: Any,
    ) -> None:
        self._log = log
        self._server = server
        self._is_busy = is_busy
        self._running_cell = running_cell
        self._save_missed = save_missed
        self._asked = asked
        self._send = send
        self._changed = changed
        self._root = folders.root()
        self._began = folders.stamp(time.time())
        self._waking: Waking | None = None
        self._wake_task: asyncio.Task[None] | None = None
        self._order_task: asyncio.Task[None] | None = None
        self._order: SleepOrder | None = None
        self._saving: SessionSaving | None = None
        self._end = 0.0
        self._is_stopped = False

    @property
    def wake(self) -> Wake | None:
        """What came back of the session that slept."""
        return self._waking.state if self._waking else None

    @property
    def is_waking(self) -> bool:
        """Whether the session is being woken."""
        return self._wake_task is not None and not self._wake_task.done()

    @property
    def saving(self) -> SleepProgress | None:
        """How far the order has come; None without one."""
        if self._order is None:
            return None
        saves = self._saving.saves if self._saving else []
        return SleepProgress(
            id=self._order.id,
            kernels=len(saves),
            kernels_done=sum(each.result is not None for each in saves),
            variables=sum(each.variables for each in saves),
            size_bytes=sum(each.size_bytes for each in saves),
        )

    # --- wake ---

    def begin(self, environ: Mapping[str, str] = os.environ) -> None:
        """Wake the session in the background, as the environment says."""
        self._wake_task = asyncio.create_task(self._wake(environ), name="wake")

    async def _wake(self, environ: Mapping[str, str]) -> None:
        try:
            record = await asyncio.to_thread(self._read, environ.get(KEEP_SECONDS, ""))
            which = environ.get(WAKE) or "sleeping"
            if record is None or which == "no" or (record.woken_at and which != "last"):
                return
            self._log.info("ec2spawner: waking the session of %s", record.session.slept_at)
            self._waking = Waking(self._server, self._root, record, self._asked, self._changed)
            await self._waking.run()
            woken = await asyncio.to_thread(
                session_record.mark_woken, self._root, record.session.id, datetime.now(UTC)
            )
            if woken is not None:
                await asyncio.to_thread(session_record.remove_unused, self._root, woken)
        except Exception:
            # The server works without its session.
            self._log.exception("ec2spawner: waking the session failed")

    def _read(self, keep: str) -> SessionRecord | None:
        """What there is to wake, after what is too old or incomplete was removed. Blocks."""
        session_record.remove_incomplete(self._root, self._began)
        record = session_record.read(self._root)
        if record is None or not keep.isdecimal():
            return record
        limit, now = timedelta(seconds=min(int(keep), 10**9)), datetime.now(UTC)
        left = session_record.expire(self._root, record, limit, now)
        if left is None:
            self._log.info("ec2spawner: the session of %s expired", record.session.slept_at)
        return left

    # --- sleep ---

    def order(self, order: SleepOrder) -> None:
        """Carry out an order, until `stop`; the same one again may only bring its end nearer."""
        if self._is_stopped:
            return
        end = time.monotonic() + (order.until - datetime.now(UTC)).total_seconds()
        if self._order is not None and order.id == self._order.id:
            self._end = min(self._end, end)
            if self._saving is not None:
                self._saving.end = self._end
            return
        if self._order_task is not None and not self._order_task.done():
            return  # the agent gives one order in the life of a server
        self._order, self._end = order, end
        self._order_task = asyncio.create_task(self._carry_out(order), name="sleep")

    async def stop(self) -> None:
        """Cancel what is under way. What a save has written stays; a later one removes it."""
        self._is_stopped = True
        tasks = [each for each in (self._wake_task, self._order_task) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, order: SleepOrder) -> None:
        reporting = asyncio.create_task(self._report_progress(), name="sleep progress")
        session: SavedSession | None = None
        steps: list[StepResult] = []
        why_not = ""
        try:
            steps = await self._run_hooks(order)
            await self._save_missed()
            session = await self._save(order)
        except Exception as error:
            self._log.exception("ec2spawner: saving the session failed")
            why_not = f"The session was not saved: {why_not_written(error)}."
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
        self._changed()
        said = SessionSaved(
            id=order.id, session=session and bounded(session), why_not=why_not[:500], steps=steps
        )
        while not self._send(said):
            await asyncio.sleep(RESEND_SECONDS)
        record = await asyncio.to_thread(session_record.read, self._root)
        if session is not None and record is not None:
            # The agent may end this process meanwhile: what is left is removed at the next start.
            await asyncio.to_thread(session_record.remove_unused, self._root, record)

    async def _run_hooks(self, order: SleepOrder) -> list[StepResult]:
        commands = await asyncio.to_thread(hooks, Path.home())
        if not commands:
            return []
        seconds = hook_seconds(self._end - time.monotonic())
        return [await run_hooks(commands, seconds, order.trigger, self._log)]

    async def _save(self, order: SleepOrder) -> SavedSession | None:
        kept = self._waking.asleep() if self._waking is not None else []
        if self._wake_task is not None and not self._wake_task.done():
            self._wake_task.cancel()
            await asyncio.gather(self._wake_task, return_exceptions=True)
        asleep = {each.kernel_id for each in kept}
        running = [k for k in await running_kernels(self._server) if k.kernel_id not in asleep]
        woken = self._waking.kernels if self._waking is not None else []
        failed = self._waking.failed() if self._waking is not None else []
        empty = self._waking.empty() if self._waking is not None else []
        self._saving = SessionSaving(
            server=self._server,
            root=self._root,
            order=order,
            is_busy=self._is_busy,
            running_cell=self._running_cell,
            kernels=running,
            lineage=lineage(running, woken, empty, self._began),
            kept=kept + [each for each in failed if each.generation and not runs(each, running)],
            end=self._end,
        )
        return await self._saving.run()

    async def _report_progress(self) -> None:
        while True:
            said = self.saving
            if said is not None:
                self._send(said)
                self._changed()
            await asyncio.sleep(PROGRESS_SECONDS)

"""Runs beside the notebook server: observes it, talks to the agent, culls idle kernels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp

from ..core.idle.policy import shortest_limit
from ..core.text.full_disk import unsaved_sentence
from ..runs.agent_request import answer_in
from ..runs.delivery import Delivery
from ..telemetry import HistoryBuffer
from ..wire import (
    AgentState,
    ClusterRequest,
    DocumentsSaved,
    NotebookReply,
    NotebookStatus,
    Observation,
    RunsAnswer,
    RunsRequest,
    ServerState,
)
from ..wire.sentences import is_of_home
from ..wire.sleep import MAX_BYTES
from .agent_link import AgentLink
from .documents.recorder import OutputRecorder
from .metrics import on_metrics_endpoint
from .observer import Observer
from .open_pages import OpenPages
from .sleep.sleep_service import SleepService
from .standalone import Standalone
from .status.cluster_status import ClusterStatusCache
from .status.guest_status import notices_for_guest
from .status.notice_events import NoticeEvents
from .status.notices import notices
from .worker_threads import stop_with_main_thread, until_unused

OBSERVE_SECONDS = 1.0
"""Between two scans of the kernels; messages of a kernel start one at once."""

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"

SEND_SECONDS = 5.0
"""The agent is sent an observation at least this often, whether something changed or not."""

RESEND_SECONDS = 0.05
"""Before a message is sent again because the agent has not read the last one yet."""

PAGES_SECONDS = 3.0
"""For open pages before a stop, until outputs of closed pages are saved too. The agent stops the
server after 5 s, and pages may use all of them."""

MISSED_SECONDS = 2.0
"""For saving the outputs of closed pages before a stop or a sleep."""

END_SECONDS = 3.0
"""The same when the server ends: the agent kills it 10 s after SIGTERM, and kernels may use 5 s."""

FILES_SECONDS = 1.0
"""Then for files that Jupyter Server still writes, such as a notebook that an open page saves."""

NOTICE_SECONDS = 1.0
"""Between two checks for new notices."""


class NotebookService:
    """Observations for the agent, status and notices for browsers.

    `agent_socket` is empty where no agent runs: the service then measures by itself. `end_url` is
    the page to open after a stop, and `owner` the user who may control the server.
    """

    def __init__(
        self,
        server: ServerApp,
        log: logging.Logger,
        *,
        agent_socket: str,
        owner: str,
        end_url: str,
    ) -> None:
        self._server = server
        self.owner = owner
        self.end_url = end_url
        self.log = log
        self.history = HistoryBuffer()
        self.link = AgentLink(agent_socket, self._learn) if agent_socket else None
        self.cluster = ClusterStatusCache(self._ask_cluster)
        self.delivery = Delivery(self._ask_runs, Path.home(), log)
        self.observer = Observer(server)
        self.outputs = OutputRecorder(server)
        self.standalone = None if self.link else Standalone(self.observer, self.history)
        self._check_notices = asyncio.Event()
        """Set to check for new notices without waiting for the interval."""
        self.sleep = (
            SleepService(
                server,
                self.observer.kernels.is_busy,
                self.outputs.running_cell,
                self._save_missed,
                self.outputs.asked,
                self.link.send,
                self._check_notices.set,
                log,
            )
            if self.link
            else None
        )
        self.pages: OpenPages | None = None
        """Set when a stop is announced."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._culling: set[str] = set()
        self._stopping: asyncio.Task[None] | None = None
        self._on_stop = contextlib.ExitStack()

    def start(self) -> None:
        """Start the tasks."""
        stop_with_main_thread()
        events = self._server.event_logger
        if events is not None and KERNEL_ACTIONS in events.schemas:
            # A kernel's first execution may follow its start at once; without these events the
            # next scan finds the kernel, within a second.
            events.add_listener(schema_id=KERNEL_ACTIONS, listener=self._kernel_acted)
        self._spawn(self._emit_notices(NoticeEvents(events)), "notices")
        self._spawn(self.outputs.run(), "outputs")
        if self.link is not None:
            self._spawn(self.link.run(), "agent link")
            self._spawn(self._observe_for_agent(self.link), "observe")
            self._spawn(self.delivery.run(), "deliver runs")
            assert self.sleep is not None
            self.sleep.begin()
        else:
            assert self.standalone is not None
            self._spawn(self.standalone.run(), "standalone")
        self._on_stop.enter_context(on_metrics_endpoint(self._last_status))

    async def stop(self) -> None:
        """Save what closed pages have missed, cancel the tasks, close sockets and threads.

        Once: another call, as after a second SIGTERM, awaits the first, because Jupyter Server ends
        with the call that returns first.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self.sleep is not None:
            await self.sleep.stop()
        await self._save_missed(END_SECONDS, is_last=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._on_stop.close()
        self.observer.close()
        self.outputs.close()
        if self.standalone is not None:
            self.standalone.close()
        await until_unused(FILES_SECONDS)

    async def _kernel_acted(self, logger: Any, schema_id: str, data: Any) -> None:
        self.observer.changed.set()

    async def status(self) -> NotebookStatus:
        """The status that browsers are shown."""
        status = (
            self._managed_status() if self.standalone is None else await self.standalone.status()
        )
        update: dict[str, Any] = {"notices": notices(status, self.history.hour())}
        if status.telemetry is not None:
            update["telemetry"] = self.observer.with_terminals(status.telemetry)
        return status.model_copy(update=update)

    async def _ask_cluster(self) -> NotebookReply:
        """How the cluster of this server stands. Raises `AgentGoneError`."""
        assert self.link is not None
        return await self.link.ask("cluster", cluster=ClusterRequest())

    async def _ask_runs(self, request: RunsRequest) -> RunsAnswer:
        """The hub's answer. Raises `AgentGoneError` and `RunError`."""
        assert self.link is not None
        return answer_in(await self.link.ask("runs", runs=request))

    def _last_status(self) -> NotebookStatus | None:
        """The last status, without a new measurement; None before the first."""
        return self._managed_status() if self.standalone is None else self.standalone.last

    async def _emit_notices(self, events: NoticeEvents) -> None:
        """Emit new notices to every open tab, hidden ones included."""
        while True:
            self._check_notices.clear()
            try:
                status = self._last_status()
                if status is not None:
                    found = notices(status, self.history.hour())
                    # Guests have a websocket too: what is the owner's alone is in the status.
                    events.tell(notices_for_guest(found), status.now)
            except Exception:
                self.log.exception("ec2spawner: emitting notices failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._check_notices.wait()

    def _managed_status(self) -> NotebookStatus:
        link = self.link
        assert link is not None
        now = datetime.now(UTC)
        state = link.state
        own: dict[str, Any] = {"now": now, "managed": True, "end_url": self.end_url}
        if self.sleep is not None:
            own |= {"saving": self.sleep.saving, "wake": self.sleep.wake}
        if state is None:
            return NotebookStatus(agent_connected=False, **own)
        return NotebookStatus(
            agent_connected=link.connected.is_set(),
            can_sleep=os.environ.get(MAX_BYTES, "0") != "0",
            **own,
            **{name: getattr(state, name) for name in ServerState.model_fields},
        )

    async def _observe_for_agent(self, link: AgentLink) -> None:
        """Send what changed when it changes, and something every few seconds."""
        sent: Observation | None = None
        sent_at = 0.0
        while True:
            await link.connected.wait()
            self.observer.changed.clear()
            try:
                seen = await self.observer.observe()
                if self.sleep is not None and self.sleep.is_waking:
                    seen = seen.model_copy(update={"waking": True})
                is_news = sent is None or seen != sent.model_copy(update={"at": seen.at})
                if (
                    is_news or time.monotonic() - sent_at >= self._paced(SEND_SECONDS)
                ) and link.send(seen):
                    sent, sent_at = seen, time.monotonic()
            except Exception:
                # Continue: the next scan may succeed.
                self.log.exception("ec2spawner: scanning the kernels failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._paced(OBSERVE_SECONDS)):
                    await self.observer.changed.wait()
            # At most ten observations a second of a kernel that runs cell after cell.
            await asyncio.sleep(0.1)

    def _paced(self, seconds: float) -> float:
        """The interval, shortened for idle limits of seconds, as in demos and tests."""
        state = self.link.state if self.link else None
        limit = shortest_limit(state.idle_policy) if state else 0.0
        return min(seconds, limit / 10) if limit else seconds

    def _learn(self, state: AgentState) -> None:
        """Apply a state that the agent sent."""
        self.history.add(state.telemetry)
        self._cull(state)
        if state.hub_reachable:
            self.delivery.learn(state.undelivered_runs)
        if state.stop is not None and self.pages is None and self.link is not None:
            self.pages = OpenPages(self._server.event_logger)
            self._check_notices.set()
            self._spawn(self._report_saved(self.link, self.pages), "saved")
        if state.sleep is not None and self.sleep is not None:
            self.sleep.order(state.sleep)

    async def _report_saved(self, link: AgentLink, pages: OpenPages) -> None:
        """Report to the agent once all is saved; it stops this server after 5 s."""
        saved = asyncio.create_task(pages.until_saved())
        missed: list[str] = []
        try:
            await asyncio.wait({saved}, timeout=PAGES_SECONDS)
            missed = await self._save_missed()
            await saved
        finally:
            saved.cancel()
        is_full = link.state is not None and any(map(is_of_home, link.state.full_disks))
        said = DocumentsSaved(unsaved=unsaved_sentence({*pages.unsaved, *missed}, is_full))
        while not link.send(said):
            await asyncio.sleep(RESEND_SECONDS)

    async def _save_missed(
        self, seconds: float = MISSED_SECONDS, *, is_last: bool = False
    ) -> list[str]:
        """Write the outputs that closed pages have missed into their notebooks; the paths of those
        that could not be written."""
        try:
            async with asyncio.timeout(seconds):
                return await self.outputs.write(is_last=is_last)
        except Exception:
            self.log.exception("ec2spawner: saving the outputs of closed pages failed")
        return []

    def _cull(self, state: AgentState) -> None:
        """Shut down the kernels that have been idle for too long, if nothing has happened since."""
        silent_seconds = state.idle_policy.silent_kernel_seconds
        for kernel_id in state.idleness.cull_kernels:
            is_unused = self.observer.is_unused(kernel_id, state.at, silent_seconds)
            if kernel_id not in self._culling and is_unused:
                self._culling.add(kernel_id)
                self._spawn(self._shut_down(kernel_id), "cull")

    async def _shut_down(self, kernel_id: str) -> None:
        self.log.info("ec2spawner: kernel %s was idle for too long and is shut down", kernel_id)
        try:
            await self.outputs.write([kernel_id])
            async with asyncio.timeout(30):
                await self.observer.kernels.shut_down(kernel_id)
        except Exception:
            self.log.exception("ec2spawner: kernel %s could not be shut down", kernel_id)
        finally:
            self._culling.discard(kernel_id)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("ec2spawner: the task %s failed", task.get_name(), exc_info=error)

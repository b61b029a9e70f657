"""The extension itself: observer, line to the agent, handlers, and the culling of idle kernels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from datetime import UTC, datetime
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp

from ..core.idle.policy import shortest_limit
from ..telemetry import HistoryBuffer
from ..wire import (
    AgentState,
    DocumentsSaved,
    NotebookStatus,
    Observation,
)
from .agent_link import AgentLink
from .handlers import (
    ExtendHandler,
    HistoryHandler,
    IdleHandler,
    InputHandler,
    SavedHandler,
    StatusHandler,
    StopHandler,
)
from .metrics import on_metrics_endpoint
from .notice_events import NoticeEvents
from .notices import notices
from .observer import Observer
from .open_pages import OpenPages
from .standalone import Alone
from .terminal_shell import shell_command

OBSERVE_SECONDS = 1.0
"""How often kernels are looked at; a kernel's messages come by themselves."""

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"

SEND_SECONDS = 5.0
"""The agent hears from us at least this often, whether something changed or not."""

RESEND_SECONDS = 0.05
"""Until the next try, where the agent has not read the last message yet."""

TELL_SECONDS = 1.0
"""How often it is looked whether there is something that people should be told."""


class NotebookExtension(ExtensionApp):
    """What the notebook server sees, for the agent; what the agent knows, for the browser."""

    name = "ec2spawner"
    load_other_extensions = True

    def initialize_settings(self) -> None:
        """Read the agent's environment; prepare what a page must know before its first request."""
        self.owner = os.environ.get("JUPYTERHUB_USER", "")
        path = os.environ.get("EC2SPAWNER_AGENT_SOCKET", "")
        self.end_url = os.environ.get("EC2SPAWNER_END_URL", "")
        self.history = HistoryBuffer()
        self.link = AgentLink(path, self._learn) if path else None
        assert self.serverapp is not None
        # The page must know before it can ask: it registers a plugin in place of JupyterLab's own.
        page = self.serverapp.web_app.settings.setdefault("page_config_data", {})
        page["ec2spawnerManaged"] = bool(path)
        command = shell_command(os.environ) if path else None
        if command is not None:
            # Before the terminals' own extension reads it; what the user has configured wins.
            self.serverapp.terminado_settings.setdefault("shell_command", command)
        self.observer = Observer(self.serverapp)
        self.alone = None if self.link else Alone(self.observer, self.history)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._culling: set[str] = set()
        self._has_news = asyncio.Event()
        """There may be another notice: do not wait for the next turn."""
        self.pages: OpenPages | None = None
        """From the moment a stop is announced."""
        self._on_stop = contextlib.ExitStack()

    def initialize_handlers(self) -> None:
        """The calls below `ec2spawner/api/`, see docs/reference/http.md."""
        given = {"extension": self}
        self.handlers.extend(
            [
                (r"/ec2spawner/api/status", StatusHandler, given),
                (r"/ec2spawner/api/history", HistoryHandler, given),
                (r"/ec2spawner/api/extend", ExtendHandler, given),
                (r"/ec2spawner/api/idle", IdleHandler, given),
                (r"/ec2spawner/api/stop", StopHandler, given),
                (r"/ec2spawner/api/input", InputHandler, given),
                (r"/ec2spawner/api/saved", SavedHandler, given),
            ]
        )

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        if serverapp.event_logger is not None and KERNEL_ACTIONS in serverapp.event_logger.schemas:
            # A kernel's first execution may come soon after its start; without the events the
            # next look finds the kernel, within a second.
            serverapp.event_logger.add_listener(
                schema_id=KERNEL_ACTIONS, listener=self._kernel_acted
            )
        events = NoticeEvents(serverapp.event_logger)
        self._hold(asyncio.create_task(self._tell_notices(events), name="notices"))
        if self.link is not None:
            self._hold(asyncio.create_task(self.link.run(), name="agent link"))
            self._hold(asyncio.create_task(self._observe_for_agent(self.link), name="observe"))
        else:
            assert self.alone is not None
            self._hold(asyncio.create_task(self.alone.run(), name="alone"))
        self._on_stop.enter_context(on_metrics_endpoint(self._status_at_hand))

    async def stop_extension(self) -> None:
        """Cancel the tasks and close sockets and threads."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._on_stop.close()
        self.observer.close()
        if self.alone is not None:
            self.alone.close()

    async def _kernel_acted(self, logger: Any, schema_id: str, data: Any) -> None:
        self.observer.changed.set()

    async def status(self) -> NotebookStatus:
        """What the browser sees."""
        status = self._managed_status() if self.alone is None else await self.alone.status()
        told: dict[str, Any] = {"notices": notices(status, self.history.hour())}
        if status.telemetry is not None:
            told["telemetry"] = self.observer.with_terminals(status.telemetry)
        return status.model_copy(update=told)

    def _status_at_hand(self) -> NotebookStatus | None:
        """The status without asking anybody anew."""
        return self._managed_status() if self.alone is None else self.alone.last

    async def _tell_notices(self, events: NoticeEvents) -> None:
        """To every open tab, the hidden ones too, as soon as there is something to tell."""
        while True:
            self._has_news.clear()
            try:
                status = self._status_at_hand()
                if status is not None:
                    events.tell(notices(status, self.history.hour()), status.now)
            except Exception:
                self.log.exception("ec2spawner: notices could not be told")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELL_SECONDS):
                    await self._has_news.wait()

    def _managed_status(self) -> NotebookStatus:
        link = self.link
        assert link is not None
        now = datetime.now(UTC)
        state = link.state
        if state is None:
            return NotebookStatus(
                now=now, managed=True, agent_connected=False, end_url=self.end_url
            )
        return NotebookStatus(
            now=now,
            managed=True,
            agent_connected=link.connected.is_set(),
            cost=state.cost,
            profile=state.profile,
            instance_type=state.instance_type,
            idle_policy=state.idle_policy,
            idleness=state.idleness,
            extended_until=state.extended_until,
            keep=state.keep,
            telemetry=state.telemetry,
            stop=state.stop,
            hub_reachable=state.hub_reachable,
            full_disks=state.full_disks,
            interruption_at=state.interruption_at,
            files_kept=state.files_kept,
            end_url=self.end_url,
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
                is_news = sent is None or seen != sent.model_copy(update={"at": seen.at})
                if (
                    is_news or time.monotonic() - sent_at >= self._paced(SEND_SECONDS)
                ) and link.send(seen):
                    sent, sent_at = seen, time.monotonic()
            except Exception:
                # One look that fails must not blind us for good.
                self.log.exception("ec2spawner: a look at the kernels failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._paced(OBSERVE_SECONDS)):
                    await self.observer.changed.wait()
            # A kernel that runs cell after cell is told of ten times a second at most.
            await asyncio.sleep(0.1)

    def _paced(self, seconds: float) -> float:
        """Shorter under a policy of seconds, as demonstrations and tests have."""
        state = self.link.state if self.link else None
        limit = shortest_limit(state.idle_policy) if state else 0.0
        return min(seconds, limit / 10) if limit else seconds

    def _learn(self, state: AgentState) -> None:
        """Take what the agent says."""
        self.history.add(state.telemetry)
        self._cull(state)
        if state.stop is not None and self.pages is None and self.link is not None:
            assert self.serverapp is not None
            self.pages = OpenPages(self.serverapp.event_logger)
            self._has_news.set()
            self._hold(asyncio.create_task(self._report_saved(self.link, self.pages), name="saved"))

    async def _report_saved(self, link: AgentLink, pages: OpenPages) -> None:
        """Report to the agent once every open page has saved; it stops this server after 5 s."""
        await pages.until_saved()
        while not link.send(DocumentsSaved()):
            await asyncio.sleep(RESEND_SECONDS)

    def _cull(self, state: AgentState) -> None:
        """Shut down the kernels that have been idle for too long, if nothing has happened since."""
        silent_seconds = state.idle_policy.silent_kernel_seconds
        for kernel_id in state.idleness.cull_kernels:
            is_unused = self.observer.is_unused(kernel_id, state.at, silent_seconds)
            if kernel_id not in self._culling and is_unused:
                self._culling.add(kernel_id)
                self._hold(asyncio.create_task(self._shut_down(kernel_id), name="cull"))

    async def _shut_down(self, kernel_id: str) -> None:
        self.log.info("ec2spawner: kernel %s was idle for too long and is shut down", kernel_id)
        try:
            async with asyncio.timeout(30):
                await self.observer.kernels.shut_down(kernel_id)
        except Exception:
            self.log.exception("ec2spawner: kernel %s could not be shut down", kernel_id)
        finally:
            self._culling.discard(kernel_id)

    def _hold(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("ec2spawner: the task %s failed", task.get_name(), exc_info=error)

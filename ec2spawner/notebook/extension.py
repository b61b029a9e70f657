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

from ..wire import AgentState, NotebookStatus, Observation
from .agent_link import AgentLink
from .alone import Alone
from .handlers import ExtendHandler, InputHandler, StatusHandler, StopHandler
from .observer import Observer

OBSERVE_SECONDS = 1.0
"""How often kernels are looked at; a kernel's messages come by themselves."""

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"

SEND_SECONDS = 5.0
"""The agent hears from us at least this often, whether something changed or not."""


class NotebookExtension(ExtensionApp):
    """What the notebook server sees, for the agent; what the agent knows, for the browser."""

    name = "ec2spawner"
    load_other_extensions = True

    def initialize_settings(self) -> None:
        self.owner = os.environ.get("JUPYTERHUB_USER", "")
        path = os.environ.get("EC2SPAWNER_AGENT_SOCKET", "")
        self.link = AgentLink(path, self._cull) if path else None
        assert self.serverapp is not None
        self.observer = Observer(self.serverapp)
        self.alone = None if self.link else Alone(self.observer)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._culling: set[str] = set()

    def initialize_handlers(self) -> None:
        given = {"extension": self}
        self.handlers.extend(
            [
                (r"/ec2spawner/api/status", StatusHandler, given),
                (r"/ec2spawner/api/extend", ExtendHandler, given),
                (r"/ec2spawner/api/stop", StopHandler, given),
                (r"/ec2spawner/api/input", InputHandler, given),
            ]
        )

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        if serverapp.event_logger is not None and KERNEL_ACTIONS in serverapp.event_logger.schemas:
            # A kernel's first execution may come soon after its start; without the events the
            # next look finds the kernel, within a second.
            serverapp.event_logger.add_listener(
                schema_id=KERNEL_ACTIONS, listener=self._kernel_acted
            )
        if self.link is not None:
            self._hold(asyncio.create_task(self.link.run(), name="agent link"))
            self._hold(asyncio.create_task(self._observe_for_agent(self.link), name="observe"))
        else:
            self._hold(asyncio.create_task(self._pause_unless_asked(), name="pause"))

    async def stop_extension(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.observer.close()
        if self.alone is not None:
            self.alone.close()

    async def _kernel_acted(self, logger: Any, schema_id: str, data: Any) -> None:
        self.observer.changed.set()

    async def status(self) -> NotebookStatus:
        """What the browser sees."""
        if self.alone is not None:
            return await self.alone.status()
        link = self.link
        assert link is not None
        now = datetime.now(UTC)
        state = link.state
        if state is None:
            return NotebookStatus(now=now, managed=True, agent_connected=False)
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
            telemetry=state.telemetry,
            stop=state.stop,
            hub_reachable=state.hub_reachable,
            disk_full=state.disk_full,
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
        policy = state.idle_policy.server_seconds if state else 0
        return min(seconds, policy / 10) if policy else seconds

    async def _pause_unless_asked(self) -> None:
        assert self.alone is not None
        while True:
            await asyncio.sleep(10)
            self.alone.pause_unless_asked()

    def _cull(self, state: AgentState) -> None:
        """Shut down the kernels that have been idle for too long, if they still are."""
        for kernel_id in state.idleness.cull_kernels:
            if kernel_id not in self._culling and self.observer.kernels.is_idle(kernel_id):
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

"""What only the notebook server can see, put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from jupyter_server.serverapp import ServerApp

from ..wire import Observation, Telemetry
from .kernels.kernel_watch import MAX_PATH, KernelWatches, Opened

log = logging.getLogger(__name__)


class Observer:
    """Observes kernels and a person's input. `changed` is set when one of them moves."""

    def __init__(
        self, server: ServerApp, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._sessions: Any = server.session_manager
        self._web_settings: dict[str, Any] = server.web_app.settings
        self.changed = asyncio.Event()
        self.kernels = KernelWatches(server.kernel_manager, now, self.changed.set)
        self._last_input: datetime | None = None

    def input(self) -> None:
        """A person has typed or clicked just now."""
        self._last_input = self._now()
        self.changed.set()

    async def observe(self) -> Observation:
        """Kernels and the user's last input, as the agent gets them."""
        return Observation(
            at=self._now(),
            kernels=self.kernels.states(await self._opened()),
            last_input=self._last_input,
        )

    def is_unused(self, kernel_id: str, at: datetime, silent_seconds: float) -> bool:
        """Whether a kernel that was unused at `at` still is: no input since, and it is idle or has
        been busy with the same execution for at least `silent_seconds`."""
        if self._last_input is not None and self._last_input > at:
            return False
        return self.kernels.runs_nothing_younger(kernel_id, silent_seconds)

    def with_terminals(self, telemetry: Telemetry) -> Telemetry:
        """The same with Jupyter's names for its terminals, by which the browser opens them."""
        terminals = getattr(self._web_settings.get("terminal_manager"), "terminals", {})
        names = {
            getattr(getattr(terminal, "ptyproc", None), "pid", None): name
            for name, terminal in list(terminals.items())
        }
        if not names:
            return telemetry
        workers = [
            worker.model_copy(update={"terminal": names[worker.pid]})
            if worker.kind == "terminal" and worker.pid in names
            else worker
            for worker in telemetry.workers
        ]
        return telemetry.model_copy(update={"workers": workers})

    def close(self) -> None:
        """Disconnect from all kernels."""
        self.kernels.close()

    async def _opened(self) -> dict[str, Opened]:
        try:
            sessions = await self._sessions.list_sessions()
            return {
                each["kernel"]["id"]: Opened(
                    name=each["path"] or each["name"],
                    path=_notebook_path(each),
                )
                for each in sessions
            }
        except Exception as error:
            # Names are decoration: the kernels are seen without them, too.
            log.debug("no names of notebooks: %r", error)
            return {}


def _notebook_path(session: Mapping[str, Any]) -> str:
    is_notebook = session["type"] == "notebook" and len(session["path"]) <= MAX_PATH
    return str(session["path"]) if is_notebook else ""

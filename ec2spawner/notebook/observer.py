"""What only the notebook server can see, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jupyter_server.serverapp import ServerApp

from ..wire import Observation
from .kernels import KernelWatches
from .terminals import Terminals


class Observer:
    """Observes kernels, terminals and a person's input. `changed` is set when one of them moves."""

    def __init__(
        self, server: ServerApp, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._sessions: Any = server.session_manager
        self.changed = asyncio.Event()
        self.kernels = KernelWatches(server.kernel_manager, now, self.changed.set)
        self._terminals = Terminals(server.web_app.settings)
        self._last_input: datetime | None = None

    def input(self) -> None:
        """A person has typed or clicked just now."""
        self._last_input = self._now()
        self.changed.set()

    async def observe(self) -> Observation:
        return Observation(
            at=self._now(),
            kernels=self.kernels.states(await self._notebook_paths()),
            terminals=self._terminals.states(),
            last_input=self._last_input,
        )

    def close(self) -> None:
        self.kernels.close()

    async def _notebook_paths(self) -> dict[str, str]:
        sessions = await self._sessions.list_sessions()
        return {each["kernel"]["id"]: each["path"] or each["name"] for each in sessions}

"""What only the notebook server can see, put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jupyter_server.serverapp import ServerApp

from ..wire import Observation
from .kernels import KernelWatches

log = logging.getLogger(__name__)


class Observer:
    """Observes kernels and a person's input. `changed` is set when one of them moves."""

    def __init__(
        self, server: ServerApp, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._sessions: Any = server.session_manager
        self.changed = asyncio.Event()
        self.kernels = KernelWatches(server.kernel_manager, now, self.changed.set)
        self._last_input: datetime | None = None

    def input(self) -> None:
        """A person has typed or clicked just now."""
        self._last_input = self._now()
        self.changed.set()

    async def observe(self) -> Observation:
        return Observation(
            at=self._now(),
            kernels=self.kernels.states(await self._notebook_paths()),
            last_input=self._last_input,
        )

    def close(self) -> None:
        self.kernels.close()

    async def _notebook_paths(self) -> dict[str, str]:
        try:
            sessions = await self._sessions.list_sessions()
            return {each["kernel"]["id"]: each["path"] or each["name"] for each in sessions}
        except Exception as error:
            # Names are decoration: without them the kernels are seen all the same.
            log.debug("no names of notebooks: %r", error)
            return {}

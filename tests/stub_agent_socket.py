"""An agent's local socket in a thread of its own, which reports the cost that a test sets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.wire import AgentState, Cost, Idleness, IdlePolicy, Market, NotebookReply

ME = NotebookUser("me", os.getuid(), os.getgid(), (), Path("/"), "/bin/sh")


def cost(usd: float | None = 1.0, usd_per_hour: float | None = 3.6, **changes: Any) -> Cost:
    """A server of an hour or so, whose cost was counted a moment ago."""
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "usd": usd,
        "usd_per_hour": usd_per_hour,
        "as_of": now,
        "since": now - timedelta(hours=1),
        "market": Market.SPOT,
    }
    return Cost(**given | changes)


class StubAgentSocket:
    """Its socket sends each client the state that was pushed last."""

    def __init__(self, run_dir: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.socket = self._in_loop(self._open(run_dir))
        self.path = str(self.socket.path)

    def say(self, cost: Cost | None) -> None:
        self.announce(cost=cost)

    def announce(self, **fields: Any) -> None:
        """Push a state with these fields."""
        state = AgentState(
            at=datetime.now(UTC), idle_policy=IdlePolicy(), idleness=Idleness(), **fields
        )
        said: Future[None] = Future()

        def push() -> None:
            self.socket.push(state)
            said.set_result(None)

        self._loop.call_soon_threadsafe(push)
        said.result(5)

    def close(self) -> None:
        self._in_loop(self.socket.close())
        self._in_loop(asyncio.sleep(0.05))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _in_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _open(self, run_dir: Path) -> LocalSocket:
        async def nobody_asks(request: Any) -> NotebookReply:
            raise AssertionError(request)

        opened = LocalSocket(run_dir, ME, lambda observation: None, nobody_asks, lambda said: None)
        await opened.start()
        return opened


@contextlib.contextmanager
def stub_agent_socket(first: Cost | None) -> Iterator[StubAgentSocket]:
    with tempfile.TemporaryDirectory(prefix="sock") as run_dir:
        agent = StubAgentSocket(Path(run_dir))
        agent.say(first)
        try:
            yield agent
        finally:
            agent.close()

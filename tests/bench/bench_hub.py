"""A hub of a bench: the harness's, with a configuration of the bench's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from tests.bench.loop_monitor import Turn, read_turns
from tests.harness import TREE, Embedded, Hub

START_TIMEOUT = 60.0
"""Seconds for one start, and for one stop."""


class StartFailedError(Exception):
    """A start did not end in a ready server; the message has the hub's last words."""


class BenchHub(Hub):
    """A JupyterHub whose event loop is watched."""

    def __init__(self, name: str, directory: Path, embedded: Embedded, config: Path) -> None:
        self.name = name
        self.loop_log = directory / "loop.jsonl"
        environment = {"PYTHONPATH": str(TREE), "BENCH_LOOP_LOG": str(self.loop_log)}
        super().__init__(directory, embedded, config=config, environment=environment)

    def turns(self, since: float, until: float) -> list[Turn]:
        """The loop's longer turns between two instants (seconds since the epoch), longest first."""
        turns = (turn for turn in read_turns(self.loop_log) if since <= turn.at <= until)
        return sorted(turns, key=lambda turn: turn.wall_ms, reverse=True)

    async def click_to_ready(self, user: str) -> None:
        """Ask for a server and return when the hub's model of it says ready.

        JupyterHub answers the request itself (201) when the server is ready within ten seconds; a
        slower start is followed on its progress stream, as the page of a browser does. Raises
        `StartFailedError`.
        """
        reply = await self.api.post(self.server_path(user), json={}, timeout=START_TIMEOUT)
        if reply.status_code == httpx.codes.ACCEPTED:
            await self._follow_progress(user)
        elif reply.status_code != httpx.codes.CREATED:
            raise StartFailedError(f"{self.name}: {reply.status_code} {reply.text}\n{self.tail()}")

    async def _follow_progress(self, user: str) -> None:
        async with asyncio.timeout(START_TIMEOUT):
            async with self.api.stream("GET", f"{self.server_path(user)}/progress") as stream:
                async for line in stream.aiter_lines():
                    if '"ready": true' in line:
                        return
        raise StartFailedError(f"{self.name}: the start of {user} failed\n{self.tail()}")

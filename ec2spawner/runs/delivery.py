"""Writes the results of runs that have ended into the home of the server that learns of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from anyio.to_thread import run_sync

from ..core.runs.documents import DocumentError, unpack
from ..core.text.full_disk import why_not_written
from ..wire import RunsAnswer, RunsRequest, RunSummary
from .agent_request import HubBusy
from .errors import RunRefused
from .result_file import write_result

FIRST_PAUSE: Final = 5.0
"""Seconds after a round that has delivered something."""

MAX_PAUSE: Final = 600.0
"""Seconds; the pause doubles with each round that fails and has delivered nothing."""

BETWEEN_RUNS: Final = 0.25
"""Seconds: two calls for each run, of the ten per second that the hub accepts. It gives out fewer
results than that, and says when to ask again."""

WRITE_SECONDS: Final = 120.0
"""For one file."""


class Delivery:
    """Run `run` as a task, and `learn` how many results wait.

    `ask` puts a request to the hub. Each result is fetched and written until the hub has noted
    that it was delivered, so a repeated one finds its file there.
    """

    def __init__(
        self,
        ask: Callable[[RunsRequest], Awaitable[RunsAnswer]],
        home: Path,
        log: logging.Logger,
    ) -> None:
        self._ask = ask
        self._home = home
        self._log = log
        self._waiting = asyncio.Event()
        self._delivered = 0
        self._complaint = ""

    def learn(self, count: int) -> None:
        """So many results wait, as the hub said last."""
        if count > 0:
            self._waiting.set()

    async def run(self) -> None:
        """Deliver whatever waits, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            before = self._delivered
            try:
                complaint = await self._deliver()
            except Exception as error:
                # The next round may succeed: the hub answers again, or the disk has room.
                complaint = why_not_written(error)
            self._report(complaint)
            has_failed = complaint and self._delivered == before
            pause = min(pause * 2, MAX_PAUSE) if has_failed else FIRST_PAUSE
            await asyncio.sleep(pause)
            if complaint:
                self._waiting.set()

    async def _deliver(self) -> str:
        """One round; why a result is left, if one is. Raises what would keep all others, too."""
        complaint = ""
        for run in (await self._answer(RunsRequest(action="undelivered"))).runs:
            try:
                await self._deliver_one(run)
            except (DocumentError, RunRefused) as error:
                complaint = f"run {run.number}: {error}"
            await asyncio.sleep(BETWEEN_RUNS)
        return complaint

    async def _deliver_one(self, run: RunSummary) -> None:
        answer = await self._answer(RunsRequest(action="result", number=run.number))
        if answer.result:  # else the run ended before it had one
            work = partial(_write, self._home, run.path, run.number, answer.result)
            async with asyncio.timeout(WRITE_SECONDS):
                # Abandoned when the server ends: the part of a file is removed later.
                file = await run_sync(work, abandon_on_cancel=True)
            self._log.info("ec2spawner: the result of run %d is in %s", run.number, file)
        await self._answer(RunsRequest(action="delivered", number=run.number))
        self._delivered += 1

    async def _answer(self, request: RunsRequest) -> RunsAnswer:
        """The hub's, once it accepts the request: a pause that it asks for is no failure."""
        while True:
            try:
                return await self._ask(request)
            except HubBusy as busy:
                await asyncio.sleep(busy.seconds)

    def _report(self, complaint: str) -> None:
        """One line for each reason, not for each round."""
        if complaint and complaint != self._complaint:
            self._log.warning(
                "ec2spawner: results of runs are not in %s yet, and are tried again: %s",
                self._home / "runs",
                complaint,
            )
        self._complaint = complaint


def _write(home: Path, path: str, number: int, document: str) -> Path:
    return write_result(home, path, number, unpack(document))

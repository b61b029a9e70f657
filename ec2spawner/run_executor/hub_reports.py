"""What the executor and the hub say to each other, through the agent of this instance."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pydantic import ValidationError

from ..agent_socket.exchange import TIMEOUT, exchange, refusal
from ..core.backoff import Backoff
from ..wire import RunReport, RunWork
from .threads import in_thread

BEGIN_PAUSES: Final = (0.5, 15.0)
"""Seconds between two questions for the work: the shortest and the longest."""

END_PAUSES: Final = (0.5, 30.0)
"""The same between two reports of the end."""

log = logging.getLogger(__name__)


class HubRefused(Exception):
    """The hub has answered that it will not; why, in words."""


class HubSilent(Exception):
    """The hub, or the agent, does not answer now."""


class HubReports:
    """Reports on the one run of this instance."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def begin(self) -> RunWork:
        """The work, once the hub answers. Raises `HubRefused`."""
        backoff = Backoff(*BEGIN_PAUSES)
        while True:
            try:
                return await self._send(RunReport(action="begin"))
            except HubSilent as error:
                pause = backoff.next()
                log.info("no work yet, the next question is in %.1f s: %s", pause, error)
                await asyncio.sleep(pause)

    async def progress(self, report: RunReport, seconds: float = TIMEOUT) -> bool:
        """Whether the hub has it. Tried once: the next one has what this one had."""
        try:
            await self._send(report, seconds)
        except (HubSilent, HubRefused) as error:
            log.warning("no progress reported: %s", error)
            return False
        return True

    async def end(self, report: RunReport) -> None:
        """Return once the hub has answered, however long that takes."""
        backoff = Backoff(*END_PAUSES)
        while True:
            try:
                await self._send(report)
            except HubRefused as error:
                log.error("the hub does not accept the end of this run: %s", error)
                if not report.result:
                    return
                report = report.model_copy(update={"result": ""})  # how it ended, at least
            except HubSilent as error:
                pause = backoff.next()
                log.warning("the end is reported again in %.1f s: %s", pause, error)
                await asyncio.sleep(pause)
            else:
                return

    async def end_now(self, report: RunReport, seconds: float) -> None:
        """Report the end once more within `seconds`, answered or not."""
        try:
            await self._send(report, seconds)
        except (HubSilent, HubRefused) as error:
            log.error("the end of this run is not reported: %s", error)

    async def _send(self, report: RunReport, seconds: float = TIMEOUT) -> RunWork:
        """Raises `HubRefused` and `HubSilent`."""
        request = {"type": "run", "run": report.model_dump(mode="json")}
        try:
            async with asyncio.timeout(seconds + 1):
                reply = await in_thread(exchange, self._socket, request, seconds)
        except OSError as error:  # TimeoutError is one
            raise HubSilent(f"the agent of this instance does not answer: {error!r}") from error
        if not reply.get("ok"):
            if why := refusal(reply):
                raise HubRefused(why)
            raise HubSilent("the hub does not answer")
        try:
            return RunWork.model_validate(reply.get("work"))
        except ValidationError as error:
            fields = sorted({".".join(map(str, each["loc"])) or "work" for each in error.errors()})
            raise HubRefused(
                f"its work cannot be read ({', '.join(fields)}): hub and image have different "
                "versions of ec2spawner"
            ) from error

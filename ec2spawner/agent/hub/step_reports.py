"""Steps of the lease, reported to the hub in order, without delaying the work itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from ...core.backoff import Backoff
from ...wire import AgentEvent
from .client import (
    HubClient,
    HubRefusedError,
    HubUnreachableError,
    PowerOffError,
)

log = logging.getLogger(__name__)

UNKNOWN_LEASE = 404
"""A hub that lost its store may still learn of this lease, and then wants to know."""

StepName = Literal["home", "notebook", "ready", "failed", "stopped"]


class Reports:
    """A queue of events and the task that posts them. Run `run` as a task."""

    def __init__(
        self, hub: HubClient, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._hub = hub
        self._now = now
        self._queue: asyncio.Queue[AgentEvent] = asyncio.Queue()

    def tell(self, step: StepName, message: str = "", port: int | None = None) -> None:
        """Queue an event; its time is now."""
        log.info("%s%s", step, f": {message}" if message else "")
        self._queue.put_nowait(
            AgentEvent(step=step, at=self._now(), message=message[:500], port=port)
        )

    async def report_now(self, step: StepName, message: str, timeout: float) -> None:
        """Post an event past the queue, once. Raises `HubError`."""
        event = AgentEvent(step=step, at=self._now(), message=message[:500])
        try:
            async with asyncio.timeout(timeout):
                await self._hub.tell(event)
        except TimeoutError:
            raise HubUnreachableError(f"no answer to {step} in {timeout:.0f} s") from None

    async def run(self) -> None:
        """Post what is queued, each until the hub has it. Ends when the lease has ended."""
        while True:
            event = await self._queue.get()
            try:
                await self._post(event)
            except PowerOffError:
                return
            finally:
                self._queue.task_done()

    async def until_reported(self, timeout: float) -> None:
        """Wait until nothing is queued, for `timeout` seconds at most."""
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("not everything could be reported to the hub in %.0f s", timeout)

    async def _post(self, event: AgentEvent) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._hub.tell(event)
                return
            except (HubUnreachableError, HubRefusedError) as error:
                if isinstance(error, HubRefusedError) and error.status != UNKNOWN_LEASE:
                    log.error("event %s: %s", event.step, error)
                    return
                wait = error.retry_after + backoff.next()
                log.warning("%s; telling it again in %.1f s", error, wait)
                await asyncio.sleep(wait)

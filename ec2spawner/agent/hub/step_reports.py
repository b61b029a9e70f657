"""Reports the steps of a lease to the hub, in order and without delaying the work."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Literal

from ...core.backoff import Backoff
from ...wire import AgentEvent
from .client import HubClient, HubRefusedError, HubUnreachableError, PowerOffError

log = logging.getLogger(__name__)

UNKNOWN_LEASE = 404
"""A hub that lost its store may still recover this lease, and then needs the report."""

RETRY_SECONDS = 4.0
"""Maximum between two tries while the hub is unreachable: an instance that EC2 reclaims has some
seconds left for its last report."""

StepName = Literal["home", "notebook", "ready", "failed", "stopped"]


class StepReports:
    """A queue of events, posted by `run`, which the caller starts as a task."""

    def __init__(self, hub: HubClient) -> None:
        self._hub = hub
        self._queue: asyncio.Queue[AgentEvent] = asyncio.Queue()

    def report(
        self,
        step: StepName,
        message: str = "",
        *,
        port: int | None = None,
        listen_seconds: float | None = None,
    ) -> None:
        """Queue a step with the current time; see `AgentEvent` for what goes with `ready`."""
        event = AgentEvent(
            step=step,
            at=datetime.now(UTC),
            message=message[:500],
            port=port,
            listen_seconds=listen_seconds,
        )
        self.post(event)

    def post(self, event: AgentEvent) -> None:
        """Queue an event."""
        log.info("%s%s", event.step, f": {event.message}" if event.message else "")
        self._queue.put_nowait(event)

    async def post_now(self, event: AgentEvent, timeout: float) -> None:
        """Post an event once, bypassing the queue. Raises `HubError`."""
        try:
            async with asyncio.timeout(timeout):
                await self._hub.report(event)
        except TimeoutError:
            raise HubUnreachableError(f"no answer to {event.step} in {timeout:.0f} s") from None

    async def run(self) -> None:
        """Post queued events, each until the hub accepts it. Returns when the lease has ended."""
        while True:
            event = await self._queue.get()
            try:
                await self._post(event)
            except PowerOffError:
                return
            finally:
                self._queue.task_done()

    async def until_sent(self, timeout: float) -> bool:
        """Wait until the queue is empty, for at most `timeout` seconds. Whether it is."""
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("some steps were not reported within %.0f s", timeout)
            return False
        return True

    async def _post(self, event: AgentEvent) -> None:
        backoff = Backoff(longest=RETRY_SECONDS)
        while True:
            try:
                await self._hub.report(event)
                return
            except (HubUnreachableError, HubRefusedError) as error:
                if isinstance(error, HubRefusedError) and error.status != UNKNOWN_LEASE:
                    log.error("event %s: %s", event.step, error)
                    return
                wait = error.retry_after + backoff.next()
                log.warning("%s; retrying in %.1f s", error, wait)
                await asyncio.sleep(wait)

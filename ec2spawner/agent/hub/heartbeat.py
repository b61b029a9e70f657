"""The heartbeat: a long poll that is always open, so that hub and agent reach each other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ...core.backoff import Backoff
from ...core.idle.policy import shortest_limit
from ...wire import HeartbeatResponse
from ..lease_status import LeaseStatus
from .client import HubClient, HubError, PowerOffError

log = logging.getLogger(__name__)

HOLD_SECONDS = 50.0
"""How long the hub may hold a heartbeat: below the idle timeout of most proxies."""

GAP_SECONDS = 5.0
"""Minimum between two heartbeats that the agent starts itself: cells that start and end every
second do not cause a heartbeat every second. Idle limits of seconds shorten it."""

MIN_GAP_SECONDS = 0.25
"""Under any policy: the hub answers 429 to more than 10 calls a second for one lease."""

UNREACHABLE_SECONDS = 5.0
"""The user is shown that the hub is unreachable after this long, not at each failed call."""

RETRY_SECONDS = 4.0
"""Maximum between two tries while the hub is unreachable: a restarted hub makes a server reachable
when it has heard its agent."""

UNHELD_SECONDS = 1.0
"""A response within this time that brings nothing new was not held: the agent waits instead."""


class Heartbeat:
    """Sends heartbeats while `run` runs. `news` sends the next one at once."""

    def __init__(
        self, hub: HubClient, status: LeaseStatus, on_response: Callable[[HeartbeatResponse], None]
    ) -> None:
        self._hub = hub
        self._status = status
        self._on_response = on_response
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        self._failing_since: float | None = None

    @property
    def lost_seconds(self) -> float:
        """Seconds without a usable answer; 0 while the hub answers."""
        return time.monotonic() - self._failing_since if self._failing_since else 0.0

    def news(self, *, urgent: bool = False) -> None:
        """Replace the held heartbeat by a new one, because the hub should know of a change now.

        `urgent` ones do not wait for `GAP_SECONDS`: those are seconds of a spot notice.
        """
        self._news.set()
        if urgent:
            self._urgent.set()

    async def run(self) -> None:
        """Send heartbeats until cancelled. Raises `PowerOffError` when the lease has ended."""
        backoff = Backoff(first=0.5, longest=RETRY_SECONDS)
        while True:
            started = time.monotonic()
            self._news.clear()
            self._urgent.clear()
            seen = self._status.state_seen
            try:
                answer = await self._heartbeat_until_news()
            except PowerOffError:
                raise
            except HubError as error:
                wait = error.retry_after + backoff.next()
                if self._failing_since is None:
                    log.warning("heartbeat: %s; the notebook keeps running", error)
                    self._failing_since = time.monotonic()
                self._status.hub_reachable = self.lost_seconds < UNREACHABLE_SECONDS
                await asyncio.sleep(wait)
                continue
            backoff.reset()
            if answer is None:
                continue
            if self._failing_since is not None:
                log.info("the hub answers again")
            self._failing_since = None
            self._status.hub_reachable = True
            self._on_response(answer)
            if answer.state == seen and time.monotonic() - started < UNHELD_SECONDS:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GAP_SECONDS):
                        await self._news.wait()

    async def _heartbeat_until_news(self) -> HeartbeatResponse | None:
        """The hub's response, or None if news came first and the call was cancelled.

        The hub holds the call until the next one is due: without one it could not reach this agent
        for seconds.
        """
        call = asyncio.ensure_future(self._hub.heartbeat(self._status.heartbeat(HOLD_SECONDS)))
        due = asyncio.ensure_future(self._until_due(time.monotonic()))
        try:
            await asyncio.wait({call, due}, return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            for task in (call, due):
                task.cancel()
            await asyncio.gather(call, due, return_exceptions=True)

    async def _until_due(self, started: float) -> None:
        """Until there is news, and it may be sent after a heartbeat that began at `started`."""
        await self._news.wait()
        gap = min(GAP_SECONDS, shortest_limit(self._status.policy) / 10 or GAP_SECONDS)
        gap = max(gap, MIN_GAP_SECONDS)
        await asyncio.sleep(max(started + MIN_GAP_SECONDS - time.monotonic(), 0.0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(started + gap - time.monotonic(), 0.0)):
                await self._urgent.wait()

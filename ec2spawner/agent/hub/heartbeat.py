"""The beat: one call to the hub that is always under way, so that each can reach the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ...core.backoff import Backoff
from ...core.idle.policy import shortest_limit
from ...wire import HeartbeatResponse
from ..notebook_server.watch import Watch
from .client import HubClient, HubError, PowerOffError

log = logging.getLogger(__name__)

HOLD_SECONDS = 50.0
"""How long the hub may hold a beat: a beat a minute, and under most proxies' idle timeout."""

GAP_SECONDS = 5.0
"""At least this long between two beats of our own accord: cells that start and end every second
are no reason to beat every second. Short policies shorten it."""

MIN_GAP_SECONDS = 0.25
"""Under any policy: the hub answers 429 to more than 10 calls a second about one lease."""

UNREACHABLE_SECONDS = 5.0
"""The user learns that the hub does not answer after this long, not at every dropped call."""

RETRY_SECONDS = 4.0
"""At most this long between two tries while the hub does not answer: a restarted hub makes a server
reachable when it has heard its agent."""

UNHELD_SECONDS = 1.0
"""An answer faster than this that brings nothing new was not held: then we wait ourselves."""


class Heartbeat:
    """Beats as long as `run` runs. `news` makes the next beat come at once."""

    def __init__(
        self, hub: HubClient, watch: Watch, on_answer: Callable[[HeartbeatResponse], None]
    ) -> None:
        self._hub = hub
        self._watch = watch
        self._on_answer = on_answer
        self._news = asyncio.Event()
        self._failing_since: float | None = None

    @property
    def lost_seconds(self) -> float:
        """For how long no call has brought a usable answer; 0 while the hub answers."""
        return time.monotonic() - self._failing_since if self._failing_since else 0.0

    def news(self) -> None:
        """Something the hub should know now: drop the held beat and send another."""
        self._news.set()

    async def run(self) -> None:
        """Beat until cancelled. Raises `PowerOffError` when the hub has ended the lease."""
        backoff = Backoff(first=0.5, longest=RETRY_SECONDS)
        while True:
            started = time.monotonic()
            self._news.clear()
            seen = self._watch.state_seen
            try:
                answer = await self._heartbeat_until_news()
            except PowerOffError:
                raise
            except HubError as error:
                wait = error.retry_after + backoff.next()
                if self._failing_since is None:
                    log.warning("heartbeat: %s; the notebook continues", error)
                    self._failing_since = time.monotonic()
                self._watch.hub_reachable = self.lost_seconds < UNREACHABLE_SECONDS
                await asyncio.sleep(wait)
                continue
            backoff.reset()
            if answer is None:
                await self._keep_gap(started)
                continue
            if self._failing_since is not None:
                log.info("the hub answers again")
            self._failing_since = None
            self._watch.hub_reachable = True
            self._on_answer(answer)
            if answer.state == seen and time.monotonic() - started < UNHELD_SECONDS:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GAP_SECONDS):
                        await self._news.wait()

    async def _heartbeat_until_news(self) -> HeartbeatResponse | None:
        """The hub's answer, or None where news came first and the call was dropped."""
        call = asyncio.ensure_future(self._hub.heartbeat(self._watch.heartbeat(HOLD_SECONDS)))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({call, news}, return_when=asyncio.FIRST_COMPLETED)
            return call.result() if call.done() else None
        finally:
            for task in (call, news):
                task.cancel()
            await asyncio.gather(call, news, return_exceptions=True)

    async def _keep_gap(self, started: float) -> None:
        gap = min(GAP_SECONDS, shortest_limit(self._watch.policy) / 10 or GAP_SECONDS)
        gap = max(gap, MIN_GAP_SECONDS)
        await asyncio.sleep(max(started + gap - time.monotonic(), 0.0))

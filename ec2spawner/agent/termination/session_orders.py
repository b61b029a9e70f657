"""Orders the notebook extension to save the session, and bounds how long that takes.

The extension's process belongs to the user: what it says is bounded in size by the socket, and can
shorten the wait, not extend it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ...core.sleep.bounded_session import bounded
from ...wire import SavedSession, SessionSaved, SleepOrder, SleepProgress, StepResult, Trigger

log = logging.getLogger(__name__)

ACCEPT_SECONDS = 5.0
"""An extension that has reported no progress by then is of a version that saves no sessions."""

SLACK_SECONDS = 1.0
"""For the report of an extension that used all of its time."""

POLL_SECONDS = 0.05


class SessionOrders:
    """The order to save a session, from the agent's side. `hear` what the extension says of it."""

    def __init__(
        self,
        send: Callable[[SleepOrder], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`send` shows the order to the extension."""
        self._send = send
        self._now = now
        self._order: SleepOrder | None = None
        self._accepted = False
        self._answer: SessionSaved | None = None

    def hear(self, said: SleepProgress | SessionSaved) -> None:
        """Apply what the extension says; without an order of that id, nothing."""
        if self._order is None or said.id != self._order.id:
            return
        self._accepted = True
        if isinstance(said, SessionSaved) and self._answer is None:
            self._answer = said

    async def save(
        self, trigger: Trigger, max_bytes: int, seconds_left: Callable[[], float]
    ) -> SavedSession | None:
        """Order the session to be saved and wait for it; None if nothing was.

        `seconds_left` is asked again and again, because a spot notice shortens it. Returns at the
        latest `SLACK_SECONDS` after nothing is left.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        order = SleepOrder(
            id=f"{self._now():%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
            trigger=trigger,
            until=self._now() + timedelta(seconds=seconds_left()),
            # A session that nobody uses has nothing to interrupt; else the kernel ends anyway.
            interrupt_busy=trigger != "idle",
            max_bytes=max_bytes,
        )
        self._order = order
        self._send(order)
        while self._answer is None:
            await asyncio.sleep(POLL_SECONDS)
            left = seconds_left()
            if not self._accepted and loop.time() - began > ACCEPT_SECONDS:
                log.warning("the notebook saves no sessions")
                return None
            if left < -SLACK_SECONDS:
                log.warning("the notebook did not report that the session is saved")
                return None
            sooner = self._now() + timedelta(seconds=left)
            if order.until - sooner > timedelta(seconds=1):
                order = order.model_copy(update={"until": sooner})
                self._send(order)
        session = self._answer.session
        if session is None:
            return None
        return bounded(session.model_copy(update={"id": order.id, "trigger": trigger}))

    @property
    def why_not(self) -> str:
        """Why the extension could not save the session; empty where it could."""
        return self._answer.why_not if self._answer else ""

    @property
    def steps(self) -> list[StepResult]:
        """What the extension says of the steps that it took by itself."""
        return self._answer.steps if self._answer else []

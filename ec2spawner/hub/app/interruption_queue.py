"""Spot interruptions through EventBridge and SQS, where the admin names a queue.

Beside the agent's own polling: it hears of a notice also while the agent is silent.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ...aws.monitoring.spot_event_queue import QueueMessage, SpotEventQueue
from ...core.sleep.spot_events import UnknownEvent, parse
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.provisioner import Provisioner
from ...provisioner.runtime.supervise import Supervised

log = logging.getLogger(__name__)

PAUSE: Final = 5.0
MAX_PAUSE: Final = 60.0
"""Seconds after a failure, doubled with each: a notice is of two minutes."""

MAX_REASONS: Final = 20
"""Reasons for which a message was not understood, each logged once."""

PERMISSION: Final = (
    "the hub's role needs the policy in configs/interruptions-policy.json for this queue"
)


class InterruptionQueue:
    """Passes the queue's events on to the provisioner."""

    def __init__(self, queue: SpotEventQueue, provisioner: Provisioner) -> None:
        self._queue = queue
        self._provisioner = provisioner
        self._failing = ""
        """Code of the last failure; empty after a success."""
        self._not_understood: set[str] = set()

    async def run(self) -> None:
        """Receive until cancelled."""
        supervised = Supervised("Receiving spot events")
        pause = PAUSE
        try:
            while True:
                succeeded = False
                with supervised:
                    succeeded = await self._receive()
                pause = PAUSE if succeeded else min(2 * pause, MAX_PAUSE)
                if not succeeded:
                    await asyncio.sleep(pause)
        finally:
            await self._queue.close()

    async def _receive(self) -> bool:
        """False where the queue does not answer; that is logged once, until its cause is another.

        Messages are deleted only once they are passed on; SQS delivers one twice now and then, and
        the second changes nothing.
        """
        try:
            messages = await self._queue.receive()
            for each in messages:
                self._pass_on(each)
            if messages:
                await self._queue.delete(messages)
        except CloudError as error:
            if error.code != self._failing:
                denied = error.code.startswith("AccessDenied")
                fix = PERMISSION if denied else "none needed, it is tried again"
                log.warning("Spot events are not received: %s. Fix: %s", error, fix)
            self._failing = error.code
            return False
        if self._failing:
            log.info("Spot events are received again")
        self._failing = ""
        return True

    def _pass_on(self, message: QueueMessage) -> None:
        try:
            event = parse(message.body)
        except UnknownEvent as error:
            reason = str(error)
            if reason not in self._not_understood and len(self._not_understood) < MAX_REASONS:
                self._not_understood.add(reason)
                log.warning(
                    "A message of the queue of spot events is %s: deleted. Send only spot events "
                    "to it",
                    reason,
                )
            return
        self._provisioner.spot_events.happened(event)

"""Sends what is in the outbox, to each destination in its own time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from ..core.alarms.retries import BACKOFF, is_given_up
from ..core.backoff import Backoff
from ..provisioner.alarms.outbox import Outbox
from ..provisioner.model.alarm_delivery import AlarmDelivery
from ..provisioner.runtime.clock import Clock
from ..provisioner.runtime.supervise import Supervised
from .destination import Destination, NotDelivered

log = logging.getLogger(__name__)

TIMEOUT: Final = 60.0
"""Seconds for one message: mail servers delay a stranger's by up to half a minute."""


@dataclass(slots=True)
class Delivery:
    """Sends alarms to all destinations: a slow or dead one delays no other."""

    outbox: Outbox
    destinations: Sequence[Destination]
    clock: Clock
    backoff: Backoff = field(default_factory=lambda: BACKOFF)

    async def run(self) -> None:
        """Send what is due until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for destination in self.destinations:
                tasks.create_task(self._serve(destination))

    async def _serve(self, destination: Destination) -> None:
        supervised = Supervised(f"Sending alarms to {destination.name}")
        while True:
            await self.outbox.wait(destination.name, self.clock.now())
            pause = self.backoff.pause(1)
            with supervised:
                pause = await self._send_due(destination)
            await asyncio.sleep(pause)

    async def _send_due(self, destination: Destination) -> float:
        """Send until nothing is due or one fails: a message that is always refused does not keep
        the others waiting. Returns how long to pause, in seconds."""
        while delivery := self.outbox.due(destination.name, self.clock.now()):
            try:
                async with asyncio.timeout(TIMEOUT):
                    await destination.send(delivery.alarm)
            except Exception as error:
                await self._failed(destination, delivery, reason(error))
                return self.backoff.pause(1)
            await self.outbox.done(delivery, self.clock.now())
        return 0.0

    async def _failed(self, destination: Destination, delivery: AlarmDelivery, why: str) -> None:
        now, failures = self.clock.now(), delivery.attempts + 1
        title, name = delivery.alarm.title, destination.name
        if is_given_up(delivery.alarm.at, now):
            log.error("%s has not accepted “%s” for days; giving up: %s", name, title, why)
            destination.forget(delivery.alarm)
            await self.outbox.done(delivery, now)
            return
        level = logging.WARNING if failures == 1 else logging.DEBUG
        log.log(level, "%s did not accept “%s”; trying again: %s", name, title, why)
        pause = timedelta(seconds=self.backoff.pause(failures))
        await self.outbox.failed(delivery, now + pause)


def reason(error: Exception) -> str:
    """Why a destination did not accept an alarm.

    An error of a library is only named, for its text may hold a URL.
    """
    if isinstance(error, NotDelivered):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    return type(error).__name__

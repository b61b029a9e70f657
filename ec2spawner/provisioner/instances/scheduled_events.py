"""Reads the scheduled events of the hub's instances, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ...core.instances.scheduled_events import ScheduledEvent
from ..model.cloud.cloud import Cloud, CloudError
from ..model.error_hints import describe_error
from ..runtime.supervise import Supervised
from ..state.state import State

log = logging.getLogger(__name__)

INTERVAL: Final = 300.0
"""Seconds between two readings: events are announced days in advance, some hours."""

RETRY: Final = 30.0
"""Seconds after a reading that failed; doubled with each failure, up to the interval."""

TIMEOUT: Final = 30.0
"""Seconds for one reading: a page or two of what hardly any instance has."""


class ScheduledEventReadings:
    """One call for the account at each interval, while the hub has instances."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._state = state
        self._cloud = cloud
        self._failing = ""
        """The code of the last reading's error; empty where it succeeded."""
        self._announced: frozenset[tuple[str, ScheduledEvent]] = frozenset()

    async def run(self) -> None:
        """Read until cancelled: first once the instances are listed."""
        supervised, pause = Supervised("Reading scheduled events"), RETRY
        while not await self._state.instances.first_listing(INTERVAL):
            pass
        while True:
            is_read = False
            with supervised:
                is_read = await self.refresh()
            pause = RETRY if is_read else min(2 * pause, INTERVAL)
            await asyncio.sleep(INTERVAL if is_read else pause)

    async def refresh(self) -> bool:
        """Read the events. False if that failed, which keeps what was known."""
        state, asked_at = self._state, self._state.clock.now()
        if not state.instances.listed:
            state.scheduled_events.learn({}, asked_at)
            return True
        try:
            async with asyncio.timeout(TIMEOUT):
                found = await self._cloud.scheduled_events()
        except (CloudError, TimeoutError) as error:
            self._note_failure(error)
            state.scheduled_events.fail()
            return False
        if self._failing:
            log.info("Scheduled events are read again")
        self._failing = ""
        listed = state.instances.listed
        ours = {name: events for name, events in found.items() if name in listed}
        state.scheduled_events.learn(ours, asked_at)
        self._note_new(ours)
        return True

    def _note_failure(self, error: CloudError | TimeoutError) -> None:
        code = error.code if isinstance(error, CloudError) else "Timeout"
        said = describe_error(error) if isinstance(error, CloudError) else "no answer in time"
        level = logging.DEBUG if code == self._failing else logging.WARNING
        log.log(level, "Scheduled events cannot be read: %s", said)
        self._failing = code

    def _note_new(self, ours: Mapping[str, Sequence[ScheduledEvent]]) -> None:
        pending = frozenset(
            (name, event) for name, events in ours.items() for event in events if event.is_pending
        )
        for instance_id, event in sorted(
            pending - self._announced, key=lambda each: (each[1].not_before, each[0])
        ):
            log.warning(
                "AWS has scheduled %s of %s, from %s on",
                event.code,
                instance_id,
                event.not_before.isoformat(timespec="minutes"),
            )
        if pending != self._announced:
            self._announced = pending
            self._state.wake()

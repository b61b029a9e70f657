"""The capacity reservations of this hub, and how many of their places are unused.

Listed every two minutes, all with one call, in the background. In between, the hub's own instances
are counted: which of them runs in which reservation is in the listing of instances.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from ...core.offers.reserved_capacity import CapacityReservation
from ..model.cloud import Cloud, CloudError
from ..runtime.supervise import Supervised
from ..state.state import State
from .discount_coverage import BILLED

log = logging.getLogger(__name__)

INTERVAL: Final = 120.0
"""Seconds between two listings: how soon the hub sees a new reservation, and what others use of
it."""

TIMEOUT: Final = 30.0
"""Seconds for one listing."""


class ReservedCapacity:
    """The reservations that the configuration chooses, as they were listed last."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._state = state
        self._cloud = cloud
        self._choice = state.settings.capacity_reservations
        self._listed: Mapping[str, CapacityReservation] = {}
        self._ours_then: Mapping[str, int] = {}
        """Reservation -> instances of this hub in it when it was listed."""
        self._listed_at: datetime | None = None
        self._failing = ""
        """The code of the last listing's error; empty where it succeeded."""
        self._missing: Collection[str] = ()
        """Configured ids that the last listing lacked."""

    @property
    def before_spot(self) -> bool:
        """Whether places are taken before spot."""
        return self._choice.before_spot

    @property
    def listed_at(self) -> datetime | None:
        """When the reservations were listed last, UTC; None before the first listing."""
        return self._listed_at

    def active(self, now: datetime) -> Sequence[CapacityReservation]:
        """Those that have not ended, used up or not, in the order of their ids."""
        return [each for each in self._listed.values() if not each.has_ended(now)]

    def unused(self, now: datetime) -> Mapping[str, int]:
        """Places of each of these without an instance. It goes over all instances of the hub."""
        active = self.active(now)
        ours = self._ours() if active else Counter[str]()
        return {
            each.reservation_id: each.unused(
                self._ours_then.get(each.reservation_id, 0), ours[each.reservation_id]
            )
            for each in active
        }

    def _ours(self) -> Counter[str]:
        """Reservation -> instances of this hub in it, also those that no listing shows yet."""
        running = (each for each in self._state.running() if each.state in BILLED)
        return Counter(each.reservation for each in running if each.reservation)

    async def run(self) -> None:
        """List at the interval, until cancelled; at once none where none is configured."""
        supervised = Supervised("Listing capacity reservations")
        while self._choice.is_any:
            with supervised:
                await self.refresh()
            await asyncio.sleep(INTERVAL)

    async def refresh(self) -> None:
        """List the reservations. A failure keeps the old ones; a launch that targets one that has
        ended meanwhile is refused, and the market's own capacity is bought."""
        try:
            async with asyncio.timeout(TIMEOUT):
                found = await self._cloud.capacity_reservations()
        except (CloudError, TimeoutError) as error:
            code = error.code if isinstance(error, CloudError) else "Timeout"
            level = logging.DEBUG if code == self._failing else logging.WARNING
            log.log(level, "Listing capacity reservations failed: %s", error or code)
            self._failing = code
            return
        if self._failing:
            log.info("Listing capacity reservations works again")
        self._failing = ""
        chosen = [each for each in found if self._choice.chooses(each)]
        chosen.sort(key=lambda each: each.reservation_id)
        self._listed = {each.reservation_id: each for each in chosen}
        self._ours_then = self._ours()
        self._listed_at = self._state.clock.now()
        self._note_missing()
        self._state.wake()

    def _note_missing(self) -> None:
        missing = sorted(self._choice.ids - self._listed.keys())
        if missing and missing != self._missing:
            log.warning(
                "c.EC2Spawner.capacity_reservations: no active reservation for Linux, with default "
                "tenancy, is %s: it has ended, has not begun, or is in another region or account",
                ", ".join(missing),
            )
        self._missing = missing

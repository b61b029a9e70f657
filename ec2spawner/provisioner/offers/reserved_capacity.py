"""The capacity reservations of this hub, and how many of their places are unused.

Listed every two minutes, all with one call, in the background. In between, the hub's own instances
are counted: which of them runs in which reservation is in the listing of instances. A listing
during which the hub launched into a reservation may show the new instances or not: it is not used.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from ...core.offers import capacity_blocks
from ...core.offers.reserved_capacity import CapacityReservation
from ..model.cloud.cloud import Cloud, CloudError
from ..runtime.supervise import Supervised
from ..state.state import State
from .discount_coverage import BILLED

log = logging.getLogger(__name__)

INTERVAL: Final = 120.0
"""Seconds between two listings: how soon the hub sees a new reservation, and what others use of
it."""

RETRY: Final = 5.0
"""Seconds after a listing that failed or was not used; doubled with each failure, up to the
interval."""

TRUSTED_FOR: Final = 3600.0
"""Seconds of uptime after which a listing is too old to launch by, or to name a cost by."""

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
        self._listed_uptime = 0.0
        self._failing = ""
        """The code of the last listing's error; empty where it succeeded."""
        self._missing: Collection[str] = ()
        """Configured ids that the last listing lacked."""
        self._unpriced: Collection[str] = ()
        """Capacity Blocks of the last listing that are configured without their price."""

    @property
    def before_spot(self) -> bool:
        """Whether places are taken before spot."""
        return self._choice.before_spot

    @property
    def listed_at(self) -> datetime | None:
        """When the reservations were listed last, UTC; None before the first listing."""
        return self._listed_at

    @property
    def is_current(self) -> bool:
        """Whether the last listing can still be trusted."""
        age = self._state.clock.uptime() - self._listed_uptime
        return self._listed_at is not None and age <= TRUSTED_FOR

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

    def used_by_hub(self, reservation_id: str) -> int:
        """Instances of this hub in the reservation now. It goes over all instances of the hub."""
        return self._ours()[reservation_id]

    def _ours(self) -> Counter[str]:
        """Reservation -> instances of this hub in it, also those that no listing shows yet."""
        running = (each for each in self._state.running() if each.state in BILLED)
        return Counter(each.reservation for each in running if each.reservation)

    def _is_launching(self) -> bool:
        """Whether a call is under way that may take places."""
        under_way = self._state.launches.in_progress
        return any(self._listed.keys() & each.discount_places.keys() for each in under_way)

    async def run(self) -> None:
        """List at the interval, and sooner after a failure, until cancelled; at once none where
        none is configured."""
        supervised = Supervised("Listing capacity reservations")
        pause = RETRY
        while self._choice.is_any:
            is_listed = False
            with supervised:
                is_listed = await self.refresh()
            await asyncio.sleep(INTERVAL if is_listed else min(pause, INTERVAL))
            pause = 2 * pause if self._failing else RETRY

    async def refresh(self) -> bool:
        """List the reservations; whether the listing is used now. A failure keeps the old ones; a
        launch that targets one that has ended meanwhile is refused, and the market's own capacity
        is bought."""
        was_launching, before = self._is_launching(), self._ours()
        try:
            async with asyncio.timeout(TIMEOUT):
                found = await self._cloud.capacity_reservations()
        except (CloudError, TimeoutError) as error:
            code = error.code if isinstance(error, CloudError) else "Timeout"
            level = logging.DEBUG if code == self._failing else logging.WARNING
            log.log(level, "Listing capacity reservations failed: %s", error or code)
            self._failing = code
            return False
        if self._failing:
            log.info("Listing capacity reservations works again")
        self._failing = ""
        chosen = capacity_blocks.chosen(self._choice, found)
        chosen.sort(key=lambda each: each.reservation_id)
        # The end of any block counts, also of one that is configured no longer, and whoever holds
        # its places by now.
        self._state.blocks.learn([*found, *chosen])
        if was_launching or self._is_launching() or self._ours() != before:
            return False
        self._listed = {each.reservation_id: each for each in chosen}
        self._ours_then = before
        self._listed_at = self._state.clock.now()
        self._listed_uptime = self._state.clock.uptime()
        self._note_missing(found)
        self._state.wake()
        return True

    def _note_missing(self, found: Collection[CapacityReservation]) -> None:
        unpriced = sorted(x.reservation_id for x in found if self._choice.lacks_price(x))
        if unpriced and unpriced != self._unpriced:
            log.warning(
                "c.EC2Spawner.capacity_reservations: the Capacity Blocks %s are not used: EC2 does "
                "not report what was paid for them. Write them in `blocks`, with `upfront_usd`",
                ", ".join(unpriced),
            )
        self._unpriced = unpriced
        missing = sorted(self._choice.named - self._listed.keys() - set(unpriced))
        if missing and missing != self._missing:
            log.warning(
                "c.EC2Spawner.capacity_reservations: no active reservation for Linux, with default "
                "tenancy, is %s: it has ended, has not begun, is in another region or account, or "
                "is no Capacity Block and listed in `blocks`",
                ", ".join(missing),
            )
        self._missing = missing

"""Servers that have to leave their instance because AWS ends or reboots it at a known time: its
Capacity Block ends, or an event is scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...core.instances.scheduled_events import REBOOTS
from ...core.offers.capacity_blocks import TO_LEAVE, TO_REPLACE
from ...wire import Stop
from ..model.cloud.instance import Instance
from ..model.leases import successor
from .capacity_blocks import CapacityBlocks
from .instances.interruptions import AWS_REBOOTS, AWS_STOPS, INTERRUPTED
from .instances.scheduled_events import ScheduledEvents

BLOCK_ENDS: Final = Stop(
    reason=INTERRUPTED, message="Its Capacity Block ends, and AWS reclaims its machines"
)


@dataclass(frozen=True, slots=True)
class Departures:
    """The earlier of both counts. Instants are UTC."""

    blocks: CapacityBlocks
    events: ScheduledEvents

    def left_at(self, instance: Instance | None) -> datetime | None:
        """By when the server on this instance has to leave; None for most."""
        times = (self.blocks.left_at(instance), self.events.left_at(instance))
        return min((at for at in times if at is not None), default=None)

    def reclaimed_at(self, instance: Instance | None) -> datetime | None:
        """The earliest time at which AWS ends or reboots this instance; None for most."""
        at = self.left_at(instance)
        return None if at is None else at + TO_LEAVE

    def is_leaving(self, instance: Instance | None, now: datetime) -> bool:
        """Whether the server on this instance is to continue elsewhere by now."""
        at = self.left_at(instance)
        return at is not None and now >= at - TO_REPLACE

    def is_closing(self, instance: Instance | None, now: datetime) -> bool:
        """Whether this instance is given no further server: another instance serves it for longer.
        AWS announces an event for a fault of the host, so that its time does not matter."""
        has_event = self.events.left_at(instance) is not None
        return has_event or self.blocks.is_closing(instance, now)

    def stop_of(self, instance: Instance | None) -> Stop:
        """Why a server leaves this instance."""
        event = self.events.next_of(instance)
        if event is None or self.events.left_at(instance) != self.left_at(instance):
            return BLOCK_ENDS
        return AWS_REBOOTS if event.code in REBOOTS else AWS_STOPS

    def story_of(self, instance: Instance | None) -> str:
        """Return the first line of the next instance's story, for its user."""
        has_event = self.events.left_at(instance) is not None
        return successor.SCHEDULED if has_event else successor.RECLAIMED

    def are_known(self, instance: Instance) -> bool:
        """Whether this process has read what could end this instance."""
        in_order = not instance.in_block or self.blocks.left_at(instance) is not None
        return in_order and self.events.is_known

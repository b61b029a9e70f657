"""The Capacity Blocks of this hub: what their places cost, and when their servers have to leave."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ...core.offers.capacity_blocks import MIN_USE, TO_REPLACE, left_at, reclaimed_at
from ...core.offers.reserved_capacity import CapacityReservation
from ..model.cloud.instance import Instance


class CapacityBlocks:
    """As they were listed last. One that is listed no more is still known by when it ends."""

    def __init__(self) -> None:
        self._known: dict[str, CapacityReservation] = {}

    def learn(self, listed: Iterable[CapacityReservation]) -> None:
        """Take in a listing of the reservations that the hub uses; only blocks are remembered."""
        self._known |= {each.reservation_id: each for each in listed if each.is_block}

    def usd_per_hour(self, reservation_id: str) -> float | None:
        """What one place costs; None if it is unknown, or no block."""
        block = self._known.get(reservation_id)
        return None if block is None else block.usd_per_hour

    def ends_at(self, reservation_id: str) -> datetime | None:
        """When the block ends, UTC; None if it is unknown, or no block."""
        block = self._known.get(reservation_id)
        return None if block is None else block.ends_at

    def left_at(self, instance: Instance | None) -> datetime | None:
        """By when the server on this instance has to leave, UTC; None for most."""
        block = self._of(instance)
        return None if block is None else left_at(block)

    def reclaimed_at(self, instance: Instance | None) -> datetime | None:
        """When EC2 begins to terminate this instance with its block, UTC; None for most."""
        block = self._of(instance)
        return None if block is None else reclaimed_at(block)

    def is_leaving(self, instance: Instance | None, now: datetime) -> bool:
        """Whether the server on this instance is to continue elsewhere by now."""
        at = self.left_at(instance)
        return at is not None and now >= at - TO_REPLACE

    def is_closing(self, instance: Instance | None, now: datetime) -> bool:
        """Whether this instance is given no further server: that would soon have to leave."""
        at = self.left_at(instance)
        return at is not None and now >= at - MIN_USE

    def _of(self, instance: Instance | None) -> CapacityReservation | None:
        if not self._known or instance is None or not instance.in_block:
            return None
        return self._known.get(instance.reservation)

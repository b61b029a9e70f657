"""Capacity reservations: which of them a hub uses, and their unused places. Pure.

A reservation holds capacity of one instance type in one zone. An On-Demand Capacity Reservation
costs the on-demand price for each place, whether an instance runs in it or not; a Capacity Block
is paid in advance, see `capacity_blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CapacityReservation:
    """An active reservation, as one listing showed it."""

    reservation_id: str
    """`cr-...`"""
    instance_type: str
    zone: str
    total: int
    """Places: instances at once."""
    available: int
    """Places without an instance, of this hub or of anybody else."""
    ends_at: datetime | None = None
    """UTC; None is when somebody cancels it. Its instances run on, as ordinary ones, but for those
    of a block."""
    tags: Mapping[str, str] = field(default_factory=dict)
    is_block: bool = False
    """Whether it is a Capacity Block for ML."""
    begins_at: datetime | None = None
    """UTC; of a block, from when it is paid."""
    usd_per_hour: float | None = None
    """What one place of a block costs; None of any other, which costs the on-demand price."""

    def has_ended(self, now: datetime) -> bool:
        """Whether EC2 has given its capacity to others by `now` (UTC)."""
        return self.ends_at is not None and self.ends_at <= now

    def unused(self, ours_then: int, ours_now: int) -> int:
        """Places without an instance now: as listed, without those that instances of this hub have
        taken since, and with those that they have left."""
        return max(0, min(self.total, self.available + ours_then - ours_now))


@dataclass(frozen=True, slots=True)
class ReservationChoice:
    """Which of the account's reservations are this hub's to use. By default none."""

    ids: frozenset[str] = frozenset()
    tags: Mapping[str, str] = field(default_factory=dict)
    """A reservation that has all of these is chosen, too; none chooses none."""
    before_spot: bool = True
    """Whether their places are taken before spot, or after it and before other on-demand
    capacity."""
    blocks: Mapping[str, float] = field(default_factory=dict)
    """Capacity Blocks by id, each with what was paid for all of it in advance, in USD: EC2 does not
    say it. No id and no tag chooses a block without it."""

    @property
    def is_any(self) -> bool:
        """Whether any reservation can be chosen."""
        return bool(self.ids or self.tags or self.blocks)

    @property
    def named(self) -> frozenset[str]:
        """All ids that it names."""
        return self.ids | self.blocks.keys()

    def chooses(self, reservation: CapacityReservation) -> bool:
        """Whether this hub uses it."""
        if reservation.is_block:
            return reservation.reservation_id in self.blocks
        return self._names(reservation)

    def lacks_price(self, reservation: CapacityReservation) -> bool:
        """Whether it is a block that would be chosen by its id or tags, had it a price."""
        return reservation.is_block and not self.chooses(reservation) and self._names(reservation)

    def _names(self, reservation: CapacityReservation) -> bool:
        has_tags = bool(self.tags) and self.tags.items() <= reservation.tags.items()
        return reservation.reservation_id in self.ids or has_tags

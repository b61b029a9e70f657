"""Capacity Blocks for ML: their own price, and when their instances have to be left. Pure.

A block is a capacity reservation that is paid in advance, from a fixed start to a fixed end. EC2
terminates its instances before that end, without a notice in the instance's metadata: "Capacity
Blocks for ML" in the EC2 User Guide, November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from .reserved_capacity import CapacityReservation, ReservationChoice

_BEFORE_END: Final = timedelta(minutes=30)
"""EC2 begins to terminate the instances of a block so long before its end."""

_BEFORE_END_OF_ULTRASERVERS: Final = timedelta(minutes=60)
"""The same for blocks of UltraServers."""

_ULTRASERVERS: Final = ("p6e", "trn2u")
"""Families that come as UltraServers, up to a hyphen."""

TO_LEAVE: Final = timedelta(minutes=10)
"""Servers have left so long before EC2 begins to terminate: sessions are saved and homes unmounted
in one or two minutes, and a restart of the hub at that moment costs a few more. EC2 warns the
account by EventBridge at the same time."""

TO_REPLACE: Final = timedelta(minutes=5)
"""Before a server has to leave, its next instance is looked for: about a boot."""

WARNING: Final = timedelta(minutes=30)
"""Users are warned so long before their server leaves."""

MIN_LAUNCH: Final = timedelta(minutes=30)
"""Nothing is launched into a block whose servers have to leave sooner."""

MIN_USE: Final = timedelta(minutes=20)
"""An instance of the block that serves nobody gets no server when that would have to leave sooner:
`MIN_LAUNCH` without a slow boot."""


def chosen(
    choice: ReservationChoice, listed: Iterable[CapacityReservation]
) -> list[CapacityReservation]:
    """Those of the account's reservations that a hub uses, blocks with the price of a place."""
    return [_priced(choice, each) for each in listed if choice.chooses(each)]


def _priced(choice: ReservationChoice, each: CapacityReservation) -> CapacityReservation:
    if not each.is_block:
        return each
    return replace(each, usd_per_hour=usd_per_hour(each, choice.blocks[each.reservation_id]))


def usd_per_hour(block: CapacityReservation, upfront_usd: float) -> float | None:
    """What one place of a block costs by the hour, in USD, of what was paid for all of it; None
    where EC2 does not say from when to when it lasts."""
    if block.begins_at is None or block.ends_at is None or block.total < 1:
        return None
    hours = (block.ends_at - block.begins_at) / timedelta(hours=1)
    return upfront_usd / (hours * block.total) if hours > 0 else None


def reclaimed_at(block: CapacityReservation) -> datetime | None:
    """When EC2 begins to terminate its instances, UTC; None of what is no block."""
    if not block.is_block or block.ends_at is None:
        return None
    family = block.instance_type.partition(".")[0].partition("-")[0]
    is_ultraserver = family in _ULTRASERVERS
    return block.ends_at - (_BEFORE_END_OF_ULTRASERVERS if is_ultraserver else _BEFORE_END)


def left_at(block: CapacityReservation) -> datetime | None:
    """By when its servers have to leave, UTC; None of what is no block."""
    at = reclaimed_at(block)
    return None if at is None else at - TO_LEAVE


def has_left(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether no server can be in it any more by `now` (UTC)."""
    at = left_at(reservation) or reservation.ends_at
    return at is not None and at <= now


def may_launch(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether a server that starts in it now has it for long enough; always of what is no block."""
    at = left_at(reservation)
    return at is None or now < at - MIN_LAUNCH

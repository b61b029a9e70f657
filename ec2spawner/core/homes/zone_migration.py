"""The migration of a home to another zone: its next step, its duration and its cost. Pure.

An EBS volume cannot change its zone, so a new volume is created in the other zone from a snapshot.
The old volume stays until a server has become ready with the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

LISTING_GRACE: Final = timedelta(seconds=60)
"""If the response to CreateSnapshot was lost, listings are searched for its snapshot for this long
before the call is repeated: it has no ClientToken, and EC2's listings lag."""

FIXED_SECONDS: Final = (30.0, 120.0)
"""Duration of a move of any size: our assumption, low and high."""

MIB_PER_SECOND: Final = (250.0, 40.0)
"""Rate of the copy into a snapshot: our assumption, high and low. AWS promises no rate."""

VOLUME_USD_PER_GIB_MONTH: Final = 0.08
SNAPSHOT_USD_PER_GIB_MONTH: Final = 0.05
"""List prices of gp3 and of standard snapshots in us-east-1, November 2026; other regions differ
by up to a factor of two."""

HOURS_OF_A_MONTH: Final = 730.0
HOURS_KEPT: Final = 1.0
"""Hours for which both volumes and the snapshot cost money at the same time, about."""


WORTH_MOVING: Final = 0.8
"""A price in another zone of at most this share of the price at home is worth a move. Our choice: a
move takes minutes and cents, and spot prices of neighbouring zones drift by some 10 % a week."""


def is_worth_moving(usd_here: float | None, usd_there: float | None) -> bool:
    """Whether the price difference, in USD/hour, is worth a move; never if a price is unknown."""
    if usd_here is None or usd_there is None:
        return False
    return usd_there <= WORTH_MOVING * usd_here


@dataclass(frozen=True, slots=True)
class Move:
    """The move in a home's record; its resources in EC2 are found by `move_id`."""

    move_id: str
    """In the tags of the snapshot and of the new volume."""
    zone: str
    """The target zone."""
    from_volume_id: str
    from_zone: str
    volume_token: str
    """ClientToken of the new volume."""
    snapshot_asked_at: datetime | None = None
    """Stored before the call."""
    snapshot_id: str | None = None
    volume_id: str | None = None
    """The new volume. The record names it as the home from then on."""
    opened_at: datetime | None = None
    """Stored before the new volume was first attached: from then on it may hold data that the old
    one lacks."""
    discard: tuple[str, ...] = ()
    """Volumes of earlier moves that were not completed, to be deleted with this one's."""

    def given_up(self, home_volume_id: str, now: datetime) -> Move | None:
        """What is left to do if the move is abandoned: volumes of earlier moves are still deleted
        when a server has become ready with the present home."""
        if not self.discard:
            return None
        return replace(
            self,
            zone=self.from_zone,
            from_volume_id=self.discard[0],
            discard=self.discard[1:],
            volume_id=home_volume_id,
            opened_at=now,
        )


class CopyState(StrEnum):
    """EC2's own names for the state of a snapshot."""

    PENDING = "pending"
    COMPLETED = "completed"
    ERROR = "error"
    RECOVERABLE = "recoverable"
    RECOVERING = "recovering"


class MoveStep(StrEnum):
    """The next step of a move."""

    SNAPSHOT = "snapshot"
    """Create one."""
    WAIT = "wait"
    """For the listing, or for the snapshot."""
    VOLUME = "volume"
    """Create the new one, and name it in the record."""
    OPEN = "open"
    """Wait for a server that becomes ready with it."""
    CLEAN_UP = "clean-up"
    """Delete old volume and snapshot, and end the move."""
    GIVE_UP = "give-up"
    """Delete the snapshot, and end the move: the home stays where it is."""


def next_step(move: Move, copy: str | None, *, was_ready: bool, now: datetime) -> MoveStep:
    """`copy` is the state of the move's snapshot in a complete listing, None if there is none;
    `was_ready`: a server was ready with the new volume."""
    if move.volume_id is not None:
        return MoveStep.CLEAN_UP if was_ready and move.opened_at is not None else MoveStep.OPEN
    if copy == CopyState.COMPLETED:
        return MoveStep.VOLUME
    if copy == CopyState.PENDING:
        return MoveStep.WAIT
    asked = move.snapshot_asked_at
    if copy is None and asked is not None and now - asked < LISTING_GRACE:
        return MoveStep.WAIT
    if copy is not None or move.snapshot_id is not None:  # it failed or was deleted
        return MoveStep.GIVE_UP
    return MoveStep.SNAPSHOT


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated duration and cost of a move."""

    seconds: tuple[float, float]
    """Minimum and maximum."""
    usd: float
    """For the snapshot and the second volume while they exist, at list prices."""


def estimate(size_gib: int, stored_gib: float | None) -> Estimate:
    """For a volume of `size_gib` of which `stored_gib` was ever written; None is unknown."""
    copied = (0.0 if stored_gib is None else stored_gib, float(size_gib))
    most = copied[1] if stored_gib is None else min(stored_gib * 1.2, copied[1])
    seconds = (
        FIXED_SECONDS[0] + copied[0] * 1024 / MIB_PER_SECOND[0],
        FIXED_SECONDS[1] + most * 1024 / MIB_PER_SECOND[1],
    )
    monthly = size_gib * VOLUME_USD_PER_GIB_MONTH + most * SNAPSHOT_USD_PER_GIB_MONTH
    hours = HOURS_KEPT + seconds[1] / 3600
    return Estimate(seconds=seconds, usd=monthly * hours / HOURS_OF_A_MONTH)

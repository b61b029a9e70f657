"""A home on its way to another zone: what comes next, and what it takes. Pure.

An EBS volume cannot change its zone. So a snapshot is made of it, and a new volume from that in
the other zone. The old volume stays until the new one has been opened by a server that got ready.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

LISTING_GRACE: Final = timedelta(seconds=60)
"""A snapshot that was asked for, with the answer lost, is looked for so long before it is asked
for again: CreateSnapshot has no ClientToken, and EC2's listings lag."""

FIXED_SECONDS: Final = (30.0, 120.0)
"""Of a move whatever its size: our assumption, low and high."""

MIB_PER_SECOND: Final = (250.0, 40.0)
"""Copied into a snapshot: our assumption, high and low. AWS promises no rate."""

VOLUME_USD_PER_GIB_MONTH: Final = 0.08
SNAPSHOT_USD_PER_GIB_MONTH: Final = 0.05
"""List prices of gp3 and of standard snapshots in us-east-1, November 2026; other regions differ
by up to a factor of two."""

HOURS_OF_A_MONTH: Final = 730.0
HOURS_KEPT: Final = 1.0
"""Both volumes and the snapshot are paid for at the same time for about so long."""


WORTH_MOVING: Final = 0.8
"""A price in another zone of at most this share of the one at home is worth a move. Our choice: a
move takes minutes and cents, and spot prices of neighbouring zones drift by some 10 % a week."""


def is_worth_moving(usd_here: float | None, usd_there: float | None) -> bool:
    """Whether a move would save noticeably, in USD/hour; None is unknown, and is never a reason."""
    if usd_here is None or usd_there is None:
        return False
    return usd_there <= WORTH_MOVING * usd_here


@dataclass(frozen=True, slots=True)
class Move:
    """What a home's record holds of its move; what is in EC2 is found by `move_id`."""

    move_id: str
    """In the tags of the snapshot and of the new volume."""
    zone: str
    """Where to."""
    from_volume_id: str
    from_zone: str
    volume_token: str
    """ClientToken of the new volume."""
    snapshot_asked_at: datetime | None = None
    """Stored before the call."""
    snapshot_id: str | None = None
    volume_id: str | None = None
    """The new one. The record has named it as the home since."""
    opened_at: datetime | None = None
    """Stored before the new volume was first attached: from then on it may hold what the old one
    does not."""
    discard: tuple[str, ...] = ()
    """Volumes of earlier moves that did not come to their end, to be deleted with this one's."""

    def given_up(self, home_volume_id: str, now: datetime) -> Move | None:
        """What is left to do when it does not take place: the volumes of earlier ones still wait
        for a server that gets ready with the home as it is."""
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
    """What to do next."""

    SNAPSHOT = "snapshot"
    """Ask for one."""
    WAIT = "wait"
    """For the listing, or for the snapshot."""
    VOLUME = "volume"
    """Ask for the new one, and let the record name it."""
    OPEN = "open"
    """Wait for a server that got ready with it."""
    CLEAN_UP = "clean-up"
    """Delete old volume and snapshot, and end the move."""
    GIVE_UP = "give-up"
    """Delete the snapshot, and end the move: the home stays where it is."""


def next_step(move: Move, copy: str | None, *, was_ready: bool, now: datetime) -> MoveStep:
    """`copy` is the state of its snapshot in a complete listing, None where there is none;
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
    if copy is not None or move.snapshot_id is not None:  # it failed, or somebody deleted it
        return MoveStep.GIVE_UP
    return MoveStep.SNAPSHOT


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a move takes. All of it is an estimate."""

    seconds: tuple[float, float]
    """Estimates of the minimum and the maximum."""
    usd: float
    """For the snapshot and the second volume while both are there, at list prices."""


def estimate(size_gib: int, stored_gib: float | None) -> Estimate:
    """For a volume of this size of which `stored_gib` has ever been written; None is unknown."""
    copied = (0.0 if stored_gib is None else stored_gib, float(size_gib))
    most = copied[1] if stored_gib is None else min(stored_gib * 1.2, copied[1])
    seconds = (
        FIXED_SECONDS[0] + copied[0] * 1024 / MIB_PER_SECOND[0],
        FIXED_SECONDS[1] + most * 1024 / MIB_PER_SECOND[1],
    )
    monthly = size_gib * VOLUME_USD_PER_GIB_MONTH + most * SNAPSHOT_USD_PER_GIB_MONTH
    hours = HOURS_KEPT + seconds[1] / 3600
    return Estimate(seconds=seconds, usd=monthly * hours / HOURS_OF_A_MONTH)

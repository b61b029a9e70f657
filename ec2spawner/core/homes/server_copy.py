"""A home that begins as a copy of another server's: the next step of making it. Pure.

CopyVolumes copies a volume within its zone in seconds. Where EC2 does not offer it for this volume,
or does not allow it to this hub, a snapshot does the same in minutes.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from .zone_migration import LISTING_GRACE, CopyState

REFUSALS: Final = frozenset(
    {
        "InvalidAction",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidRequest",
        "OperationNotPermitted",
        "UnauthorizedOperation",
        "UnknownParameter",
        "Unsupported",
        "UnsupportedOperation",
        "UnsupportedOperationException",
    }
)
"""Codes with which EC2 refuses CopyVolumes for this volume, hub or region, but maybe no snapshot.
botocore's `ParamValidationError` is none of them: that is a defect of the installation, which a
snapshot would hide."""

BUSY: Final = frozenset(
    {"ConcurrentCopyVolumeLimitExceeded", "IncorrectState", "InvalidVolume.NotFound"}
)
"""Codes of CopyVolumes that may pass: EC2 makes one copy of a volume after the other, and may not
know a volume yet that a reading has shown."""


class CopyStep(StrEnum):
    """The next step of a copy."""

    COPY = "copy"
    """Ask for it with CopyVolumes."""
    SNAPSHOT = "snapshot"
    """Create one of the source."""
    WAIT = "wait"
    """For the listing, or for the snapshot."""
    VOLUME = "volume"
    """Create it from the snapshot."""
    GIVE_UP = "give-up"


def next_step(
    snapshot: str | None, *, is_refused: bool, asked_at: datetime | None, now: datetime
) -> CopyStep:
    """`snapshot` is the state of the copy's snapshot in a complete listing, None if there is none;
    `is_refused`: CopyVolumes was refused; `asked_at`: when the snapshot was requested."""
    if not is_refused:
        return CopyStep.COPY
    if snapshot == CopyState.COMPLETED:
        return CopyStep.VOLUME
    if snapshot == CopyState.PENDING:
        return CopyStep.WAIT
    if snapshot is not None:
        return CopyStep.GIVE_UP
    if asked_at is not None and now - asked_at < LISTING_GRACE:
        return CopyStep.WAIT
    return CopyStep.SNAPSHOT


def is_as_it_is_now(taken_at: datetime, used_at: datetime | None, *, in_use: bool) -> bool:
    """Whether a snapshot has all of a home: it was taken after the home was used last."""
    return not in_use and used_at is not None and taken_at > used_at

"""EBS volumes and their snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Volume:
    """An EBS volume as a listing or a call showed it."""

    volume_id: str
    zone: str
    size_gib: int
    state: str
    """EC2's: creating, available, in-use, deleting, deleted, error."""
    attached_to: str | None
    """Instance id."""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    """UTC."""
    volume_type: str = "gp3"
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """How a volume is made: part of the request that its token stands for."""

    size_gib: int
    snapshot_id: str = ""
    """Empty is a blank volume."""
    volume_type: str = "gp3"
    encrypted: bool = True
    kms_key: str = ""
    """Empty is the account's default key for EBS."""


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """A copy of a volume, as EC2 shows it."""

    snapshot_id: str
    volume_id: str
    state: str
    """EC2's: pending, completed, error, recoverable, recovering."""
    percent: int
    started_at: datetime
    """UTC."""
    size_gib: int
    """Of the volume."""
    stored_gib: float | None = None
    """What has ever been written to the volume; None while unknown."""
    tags: Mapping[str, str] = field(default_factory=dict)

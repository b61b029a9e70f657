"""Network interfaces, and groups of instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface."""

    interface_id: str
    state: str
    """EC2's: available, associated, attaching, in-use, detaching."""
    attached_to: str | None
    """Instance id."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group, as EC2 shows it."""

    group_id: str
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """A placement group, as EC2 shows it."""

    name: str
    """Unique in the account and region."""
    state: str = ""
    """EC2's: pending, available, deleting, deleted."""
    tags: Mapping[str, str] = field(default_factory=dict)

"""Which of a hub's resources in the cloud are leaked and deleted, which are spared, and why.

One pure decision for the hub's own reaper and for `ec2spawner reap`. In doubt a resource is spared:
one that stays costs cents, a deleted one may be somebody's data.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ..tags import HOME, HUB, INTENT, STORE

GRACE: Final = 600.0
"""Seconds for which a resource must have been unused: EC2's listings lag its responses by seconds,
an instance is stored after its launch, and an interface exists before it is attached."""


class Kind(StrEnum):
    """Kinds of resources that a hub creates, with their names for people."""

    INSTANCE = "instance"
    VOLUME = "volume"
    INTERFACE = "network interface"
    TEMPLATE = "launch template"
    SNAPSHOT = "snapshot"
    SECURITY_GROUP = "security group"
    PLACEMENT_GROUP = "placement group"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as a listing of the cloud showed it."""

    kind: Kind
    resource_id: str
    """Of a placement group its name, by which it is deleted."""
    state: str
    """EC2's state, such as `running`, `available` or `in-use`; empty where there is none."""
    tags: Mapping[str, str] = field(default_factory=dict)
    unused_seconds: float | None = None
    """How long it has been in this state, in seconds; None is unknown."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a store holds, read after the cloud was listed."""

    hub: str
    store_id: str
    """Empty where no store could be read: then nothing is its own."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Id of an instance or security group, or name of a placement group -> who holds it, in words:
    a lease, a launch call, a kept server, a cluster."""
    homes: Set[str] = frozenset()
    """Volume ids of homes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a resource is deleted, and why, in words for an admin."""

    ends: bool
    why: str


def verdict(resource: Resource, known: Known, grace: float = GRACE, store_id: str = "") -> Verdict:
    """Whether a resource is deleted, of this store or of the one that `store_id` names.

    Never one without the hub's tag, never a home, never one of another store that is not named.
    """
    if resource.tags.get(HUB) != known.hub:
        return Verdict(False, "it does not carry this hub's tag")
    made_by = resource.tags.get(STORE, "")
    if not made_by or made_by not in {known.store_id, store_id}:
        return Verdict(False, f"another store made it: {made_by or 'it names none'}")
    if resource.kind is Kind.VOLUME and (spared := _why_no_leftover(resource, known)):
        return Verdict(False, spared)
    if resource.kind is Kind.SNAPSHOT:
        return Verdict(False, "the retention of homes decides about snapshots")
    if spared := _why_in_use(resource, known):
        return Verdict(False, spared)
    if resource.unused_seconds is None or resource.unused_seconds < grace:
        return Verdict(False, f"it may be on its way: nobody's for less than {grace:.0f} s so far")
    return Verdict(True, _ENDS_BECAUSE[resource.kind])


def _why_no_leftover(volume: Resource, known: Known) -> str:
    """Only a disk that came with an instance is ever left over."""
    if HOME in volume.tags or volume.resource_id in known.homes:
        return "it is a home"
    if INTENT not in volume.tags:
        return "no launch of this hub made it"
    return ""


def _why_in_use(resource: Resource, known: Known) -> str:
    if resource.kind is Kind.INSTANCE:
        if resource.state in {"shutting-down", "terminated"}:
            return "it has ended"
        return known.held.get(resource.resource_id, "")
    if resource.kind in {Kind.SECURITY_GROUP, Kind.PLACEMENT_GROUP}:
        return known.held.get(resource.resource_id, "")
    if resource.kind in {Kind.VOLUME, Kind.INTERFACE} and resource.state != "available":
        return f"it is {resource.state or 'in an unknown state'}"
    return ""


_ENDS_BECAUSE: Final[Mapping[Kind, str]] = {
    Kind.INSTANCE: "no lease, launch call or kept server holds it",
    Kind.VOLUME: "the disk of an instance that is gone",
    Kind.INTERFACE: "the interface of an instance that is gone",
    Kind.TEMPLATE: "no launch has used it for long",
    Kind.SECURITY_GROUP: "its cluster is gone",
    Kind.PLACEMENT_GROUP: "its cluster is gone",
}

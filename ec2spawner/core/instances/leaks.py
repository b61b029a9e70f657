"""What of a hub's things in the cloud nobody needs any more: what ends, what is spared, and why.

One pure decision for the hub's own reaper and for `ec2spawner reap`. In doubt a thing is spared:
one that stays costs cents, one that was somebody's is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ..tags import HOME, HUB, INTENT, STORE

GRACE: Final = 600.0
"""Seconds that a thing must have been nobody's: EC2's listings lag its answers by seconds, an
instance is stored after it was launched, and an interface exists before it is attached."""


class Kind(StrEnum):
    """Kinds of resources that a hub creates, with their names for people."""

    INSTANCE = "instance"
    VOLUME = "volume"
    INTERFACE = "network interface"
    TEMPLATE = "launch template"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing as a listing of the cloud showed it."""

    kind: Kind
    thing_id: str
    state: str
    """EC2's word, such as `running`, `available` or `in-use`; empty where it has none."""
    tags: Mapping[str, str] = field(default_factory=dict)
    nobodys_seconds: float | None = None
    """For how long it is known to have been as it is; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a store holds, read after the cloud was listed."""

    hub: str
    store_id: str
    """Empty where no store could be read: then nothing is its own."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Instance id -> who holds it, in words: a lease, a launch call, a kept server."""
    homes: Set[str] = frozenset()
    """Volume ids of homes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a resource is deleted, and why, in words for an admin."""

    ends: bool
    why: str


def verdict(thing: Thing, known: Known, grace: float = GRACE, store_id: str = "") -> Verdict:
    """Whether a thing ends. `store_id` names another store, whose things shall end as well.

    Never what lacks the hub's tag, never a home, never what another store made unless it is named.
    """
    if thing.tags.get(HUB) != known.hub:
        return Verdict(False, "it does not carry this hub's tag")
    made_by = thing.tags.get(STORE, "")
    if not made_by or made_by not in {known.store_id, store_id}:
        return Verdict(False, f"another store made it: {made_by or 'it names none'}")
    if thing.kind is Kind.VOLUME and (spared := _why_no_leftover(thing, known)):
        return Verdict(False, spared)
    if thing.kind is Kind.SNAPSHOT:
        return Verdict(False, "the retention of homes decides about snapshots")
    if spared := _why_in_use(thing, known):
        return Verdict(False, spared)
    if thing.nobodys_seconds is None or thing.nobodys_seconds < grace:
        return Verdict(False, f"it may be on its way: nobody's for less than {grace:.0f} s so far")
    return Verdict(True, _ENDS_BECAUSE[thing.kind])


def _why_no_leftover(volume: Thing, known: Known) -> str:
    """Only a disk that came with an instance is ever left over."""
    if HOME in volume.tags or volume.thing_id in known.homes:
        return "it is a home"
    if INTENT not in volume.tags:
        return "no launch of this hub made it"
    return ""


def _why_in_use(thing: Thing, known: Known) -> str:
    if thing.kind is Kind.INSTANCE:
        if thing.state in {"shutting-down", "terminated"}:
            return "it has ended"
        return known.held.get(thing.thing_id, "")
    if thing.kind in {Kind.VOLUME, Kind.INTERFACE} and thing.state != "available":
        return f"it is {thing.state or 'in an unknown state'}"
    return ""


_ENDS_BECAUSE: Final[Mapping[Kind, str]] = {
    Kind.INSTANCE: "no lease, launch call or kept server holds it",
    Kind.VOLUME: "the disk of an instance that is gone",
    Kind.INTERFACE: "the interface of an instance that is gone",
    Kind.TEMPLATE: "no launch has used it for long",
}

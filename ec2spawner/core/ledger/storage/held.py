"""What homes and their snapshots hold in EBS by day. Pure.

EBS bills a volume's size by the second from its creation to its deletion, and of snapshots the
blocks that differ from each other. Sizes are whole MiB and instants whole seconds, so amounts are
integers of MiB-seconds, and the sum does not depend on when they are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import pairwise
from typing import Final, NamedTuple

from ..cost_rows import Resource
from ..exact import microseconds
from ..local_days import local_day, midnight, split_by_day

SECOND: Final = 1_000_000
"""In microseconds."""

MIB: Final = 1024
"""In a GiB, in which EBS states sizes and prices."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose home it is, and who pays for it."""

    user: str
    server: str
    payer: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A volume or a snapshot of a home. Instants in UTC."""

    resource_id: str
    home_id: str
    resource: Resource
    """`HOME` for a volume, `SNAPSHOT` for a snapshot."""
    mib: int
    """Of a volume its size; of a snapshot all blocks that it refers to, shared ones included."""
    created_at: datetime
    owner: Owner
    volume_type: str = ""
    """Of a volume: `gp3`."""
    zone: str = ""
    """Of a volume; snapshots belong to the region."""
    ended_at: datetime | None = None
    """When it was deleted; None while it exists."""


class StorageKey(NamedTuple):
    """What one line of the ledger adds up."""

    day: date
    """In the hub's time zone."""
    owner: Owner
    resource: Resource
    volume_type: str
    zone: str


Held = Mapping[StorageKey, int]
"""MiB-seconds by line."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was held in one period. Instants in UTC, of whole seconds."""

    since: datetime
    until: datetime
    held: Held


def held_between(
    stored: Iterable[Stored], since: datetime, until: datetime, place: tzinfo
) -> dict[StorageKey, int]:
    """What the volumes and snapshots held from `since` to `until`, by day at `place`.

    Snapshots of one home share blocks, and EC2 does not say how many: at each moment the largest
    is counted. That is too little by what they do not share, never too much.
    """
    held: dict[StorageKey, int] = {}
    snapshots: dict[str, list[Stored]] = {}
    for each in stored:
        if each.resource is Resource.SNAPSHOT:
            snapshots.setdefault(each.home_id, []).append(each)
        else:
            _add(held, each, *_seconds(each, since, until), place)
    for several in snapshots.values():
        for largest, start, end in _largest(several, since, until):
            _add(held, largest, start, end, place)
    return held


def billed_now(stored: Iterable[Stored]) -> Iterator[Stored]:
    """What of the existing volumes and snapshots counts at one moment, as in `held_between`."""
    largest: dict[str, Stored] = {}
    for each in stored:
        if each.resource is not Resource.SNAPSHOT:
            yield each
        elif each.home_id not in largest or largest[each.home_id].mib < each.mib:
            largest[each.home_id] = each
    yield from largest.values()


def _seconds(stored: Stored, since: datetime, until: datetime) -> tuple[int, int]:
    """The part of the period in which it existed, in seconds since 1970."""
    start, end = max(stored.created_at, since), min(stored.ended_at or until, until)
    return microseconds(start) // SECOND, microseconds(end) // SECOND


def _largest(
    snapshots: list[Stored], since: datetime, until: datetime
) -> Iterator[tuple[Stored, int, int]]:
    """The largest snapshot of a home, and from when to when it is that, in seconds since 1970."""
    spans = [(each, *_seconds(each, since, until)) for each in snapshots]
    spans = [span for span in spans if span[1] < span[2]]
    changes = sorted({instant for _, *both in spans for instant in both})
    for start, end in pairwise(changes):
        existing = [each for each, begin, finish in spans if begin <= start and end <= finish]
        if existing:
            yield max(existing, key=lambda each: each.mib), start, end


def _add(held: dict[StorageKey, int], stored: Stored, start: int, end: int, place: tzinfo) -> None:
    for day, begin, finish in split_by_day(start * SECOND, end * SECOND, place):
        key = StorageKey(day, stored.owner, stored.resource, stored.volume_type, stored.zone)
        held[key] = held.get(key, 0) + stored.mib * (finish - begin) // SECOND


def begins_counting(now: datetime, place: tzinfo) -> datetime:
    """Since when a store that has counted nothing yet counts: the first of the month, so that the
    month in progress is complete, and no earlier limit is changed."""
    return midnight(local_day(now, place).replace(day=1), place)

"""What homes and their snapshots hold in EBS by day, and what that costs. Pure.

EBS bills a volume's size by the second from its creation to its deletion, and of snapshots the
blocks that differ from each other. Sizes are whole MiB and instants whole seconds, so amounts are
integers of MiB-seconds, and the sum does not depend on when they are counted.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import pairwise
from typing import Final, NamedTuple

from .cost_rows import CostRow, Purpose, Resource
from .exact import microseconds, price_units
from .local_days import local_day, midnight, split_by_day

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
    things: Iterable[Stored], since: datetime, until: datetime, place: tzinfo
) -> dict[StorageKey, int]:
    """What the volumes and snapshots held from `since` to `until`, by day at `place`.

    Snapshots of one home share blocks, and EC2 does not say how many: at each moment the largest
    is counted. That is too little by what they do not share, never too much.
    """
    held: dict[StorageKey, int] = {}
    snapshots: dict[str, list[Stored]] = {}
    for thing in things:
        if thing.resource is Resource.SNAPSHOT:
            snapshots.setdefault(thing.home_id, []).append(thing)
        else:
            _add(held, thing, *_seconds(thing, since, until), place)
    for several in snapshots.values():
        for largest, start, end in _largest(several, since, until):
            _add(held, largest, start, end, place)
    return held


def billed_now(things: Iterable[Stored]) -> Iterator[Stored]:
    """What of the existing volumes and snapshots counts at one moment, as in `held_between`."""
    largest: dict[str, Stored] = {}
    for thing in things:
        if thing.resource is not Resource.SNAPSHOT:
            yield thing
        elif thing.home_id not in largest or largest[thing.home_id].mib < thing.mib:
            largest[thing.home_id] = thing
    yield from largest.values()


def _seconds(thing: Stored, since: datetime, until: datetime) -> tuple[int, int]:
    """The part of the period in which it existed, in seconds since 1970."""
    start, end = max(thing.created_at, since), min(thing.ended_at or until, until)
    return microseconds(start) // SECOND, microseconds(end) // SECOND


def _largest(
    snapshots: list[Stored], since: datetime, until: datetime
) -> Iterator[tuple[Stored, int, int]]:
    """The largest snapshot of a home, and from when to when it is that, in seconds since 1970."""
    spans = [(thing, *_seconds(thing, since, until)) for thing in snapshots]
    spans = [span for span in spans if span[1] < span[2]]
    changes = sorted({instant for _, *both in spans for instant in both})
    for start, end in pairwise(changes):
        there = [thing for thing, begin, finish in spans if begin <= start and end <= finish]
        if there:
            yield max(there, key=lambda thing: thing.mib), start, end


def _add(held: dict[StorageKey, int], thing: Stored, start: int, end: int, place: tzinfo) -> None:
    for day, begin, finish in split_by_day(start * SECOND, end * SECOND, place):
        key = StorageKey(day, thing.owner, thing.resource, thing.volume_type, thing.zone)
        held[key] = held.get(key, 0) + thing.mib * (finish - begin) // SECOND


# --- what it costs ---


def storage_nano_usd(mib_seconds: int, usd_per_gib_month: float | None, day: date) -> int | None:
    """The cost in 1e-9 USD, rounded down; None where the price is unknown.

    A second costs the price of a month divided by the seconds of the actual month, as EBS bills it.
    AWS's months are UTC's: in the hours between both midnights at a month's end, the price differs
    by 10 % at most.
    """
    if usd_per_gib_month is None:
        return None
    month = monthrange(day.year, day.month)[1] * 86_400
    return mib_seconds * price_units(usd_per_gib_month) // (MIB * month * 1000)


class Booked(NamedTuple):
    """What the ledger has of one key: MiB-seconds with a cost, and those without."""

    priced: int = 0
    nano_usd: int = 0
    """Of what is priced, in 1e-9 USD."""
    unpriced: int = 0
    """Counted while the price was unknown."""


def grown(before: Booked, more: int, usd_per_gib_month: float | None, day: date) -> Booked:
    """The same after so many MiB-seconds are added.

    A known cost stays: what is added at an unknown price is unpriced, until a later price of the
    day prices it. The cost of the parts is that of their sum, to the last 1e-9 USD.
    """
    held = before.priced + before.unpriced + more
    cost = storage_nano_usd(held, usd_per_gib_month, day)
    counted = storage_nano_usd(before.priced, usd_per_gib_month, day)
    if cost is None or counted is None:
        return before._replace(unpriced=before.unpriced + more)
    return Booked(held, before.nano_usd + cost - counted)


def storage_row(key: StorageKey, mib_seconds: int, nano_usd: int | None) -> CostRow:
    """A line of the ledger.

    Its purpose is *used*: a home is there for its user also while no server runs, so the idle rule
    says nothing about it, and nobody else could use it.
    """
    return CostRow(
        day=key.day,
        user=key.owner.user,
        server=key.owner.server,
        payer=key.owner.payer,
        profile="",
        instance_type=key.volume_type,
        zone=key.zone,
        market="",
        resource=key.resource,
        purpose=Purpose.USED,
        cause="",
        microseconds=0,
        gpus=0.0,
        nano_usd=nano_usd,
        on_demand_nano_usd=nano_usd,
        mib_seconds=mib_seconds,
    )


def storage_rows(key: StorageKey, booked: Booked) -> Iterator[CostRow]:
    """The lines of a key: what is unpriced has one of its own, so that it makes nothing else
    unknown."""
    if booked.priced:
        yield storage_row(key, booked.priced, booked.nano_usd)
    if booked.unpriced:
        yield storage_row(key, booked.unpriced, None)


def usd_per_month(mib: int, usd_per_gib_month: float | None) -> float | None:
    """What so much costs in a month, in USD; None where the price is unknown."""
    return None if usd_per_gib_month is None else mib / MIB * usd_per_gib_month


def begins_counting(now: datetime, place: tzinfo) -> datetime:
    """Since when a store that has counted nothing yet counts: the first of the month, so that the
    month in progress is complete, and no earlier limit is changed."""
    return midnight(local_day(now, place).replace(day=1), place)

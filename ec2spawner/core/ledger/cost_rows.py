"""Lines of the ledger: what was spent on a day, by whom, on what, and what for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final, NamedTuple


class Purpose(StrEnum):
    """What time was for: the three add up to the cost."""

    USED = "used"
    """The idle rule saw work."""
    IDLE = "idle"
    """The idle rule saw none."""
    OVERHEAD = "overhead"
    """Nobody could work: see `Cause`."""


class Cause(StrEnum):
    """Why there was overhead."""

    START = "start"
    """From the launch until the notebook listened."""
    FAILED_START = "failed-start"
    """The same, of a start that never got ready."""
    TERMINATION = "termination"
    """From the stop until the instance was released."""
    MINIMUM = "minimum"
    """What an instance lacked to EC2's minimum of 60 seconds."""
    UNASSIGNED = "unassigned"
    """An instance without a lease: its start was cancelled, or another instance was faster."""
    POOL = "pool"
    """An instance of the warm pool, from its launch until a server takes it or it ends."""
    RETENTION = "retention"
    """An instance that was kept for its user after a stop: what it ran, for its user and payer,
    and its disks while it was stopped, for the hub."""
    RESERVATION = "unused-reservation"
    """Places of a capacity reservation in which no instance ran."""
    REHEARSAL = "rehearsal"
    """An interruption on purpose."""


class Resource(StrEnum):
    """What was paid for."""

    INSTANCE = "instance"
    DISK = "disk"
    """An instance's own disks: root disk and data volumes."""
    ADDRESS = "address"
    """An instance's public IPv4 address."""
    HOME = "home"
    SNAPSHOT = "snapshot"
    REHEARSAL = "rehearsal"
    """Minutes of AWS Fault Injection Service."""


STORAGE = frozenset({Resource.HOME, Resource.SNAPSHOT})
"""What costs also while no server of its user runs."""

HUB = "hub"
"""The payer of what belongs to no lease."""


def user_payer(user: str) -> str:
    """The payer of a lease that is charged to its user."""
    return f"user:{user}"


@dataclass(frozen=True, slots=True)
class CostRow:
    """One line of the ledger."""

    day: date
    """In the hub's time zone."""
    user: str
    """Empty for what nobody has caused, such as an instance of the pool."""
    server: str
    payer: str
    """`user:ann`, `group:research`, `project:nlp`, or `hub`."""
    profile: str
    """Slug; empty for what belongs to no lease."""
    instance_type: str
    """Of a home its volume type, such as `gp3`."""
    zone: str
    market: str
    resource: Resource
    purpose: Purpose
    cause: str
    """A `Cause` for overhead, else empty."""
    microseconds: int
    gpus: float
    """GPUs of the instance; a share of one for fractional types."""
    nano_usd: int | None
    """In 1e-9 USD; None where the price is unknown."""
    on_demand_nano_usd: int | None
    """What the same time would have cost on demand, in 1e-9 USD; None where unknown."""
    mib_seconds: int = 0
    """Of homes and snapshots: their size times their duration."""
    gpu_measured: int = 0
    """GPU-microseconds of the day in which the use of the lease's GPUs was measured; one line of a
    lease has them for the day."""
    gpu_busy: int = 0
    """Those in which the GPUs worked."""


class Dimension(StrEnum):
    """What costs can be grouped and filtered by."""

    DAY = "day"
    USER = "user"
    SERVER = "server"
    PAYER = "payer"
    PROFILE = "profile"
    INSTANCE_TYPE = "instance_type"
    ZONE = "zone"
    MARKET = "market"
    RESOURCE = "resource"
    PURPOSE = "purpose"
    CAUSE = "cause"


class CostSum(NamedTuple):
    """A sum of lines that agree in some dimensions. A tuple: a page reads thousands at once."""

    key: tuple[str, ...]
    """Values of these dimensions; days as `2026-11-23`."""
    nano_usd: int
    """In 1e-9 USD, of the lines whose price is known."""
    on_demand_nano_usd: int
    """What the time of the lines whose both prices are known would have cost on demand."""
    comparable_nano_usd: int
    """What it did cost: their difference is what spot and discounts have saved."""
    unknown: int
    """Lines whose price is unknown: with any the sum is a lower bound."""
    microseconds: int
    """Of instances."""
    gpu_microseconds: float
    """The same, times their GPUs."""
    assumed_nano_usd: int = 0
    """What the time of the lines whose price is unknown would have cost at their list price."""
    uncounted: int = 0
    """Those of them whose list price is unknown as well."""
    mib_seconds: int = 0
    """Of homes and snapshots: their size times their duration."""
    gpu_measured: int = 0
    """GPU-microseconds in which the use of GPUs was measured."""
    gpu_busy: int = 0
    """Those in which the GPUs worked."""


WHOSE: Final = (Dimension.DAY, Dimension.USER, Dimension.PAYER)
"""Sums by these dimensions say in whose limits they count."""

Filter = Mapping[Dimension, Collection[str]]
"""Dimension -> the values that count; dimensions without an entry do not matter."""


def sum_rows(
    rows: Iterable[CostRow], by: Sequence[Dimension], only: Filter | None = None
) -> tuple[CostSum, ...]:
    """The sums by these dimensions, ordered by key; one sum with an empty key for no dimension."""
    found: dict[tuple[str, ...], CostSum] = {}
    for row in rows:
        if only and any(_value(row, name) not in allowed for name, allowed in only.items()):
            continue
        key = tuple(_value(row, name) for name in by)
        found[key] = _plus(found[key], _sum_of(key, row)) if key in found else _sum_of(key, row)
    return tuple(found[key] for key in sorted(found))


def durations_of(
    rows: Iterable[CostRow], by: Sequence[Dimension], only: Filter | None = None
) -> dict[tuple[str, ...], int]:
    """How long what was paid for existed, in microseconds, by these dimensions. By resource: disks
    and addresses last as long as their instance. Of homes and snapshots it is 0."""
    found: dict[tuple[str, ...], int] = {}
    for row in rows:
        if not only or all(_value(row, name) in allowed for name, allowed in only.items()):
            key = tuple(_value(row, name) for name in by)
            found[key] = found.get(key, 0) + row.microseconds
    return found


def merge_sums(*several: Iterable[CostSum]) -> tuple[CostSum, ...]:
    """Sums by the same dimensions, from several sources, as one; ordered by key."""
    found: dict[tuple[str, ...], CostSum] = {}
    for sums in several:
        for each in sums:
            found[each.key] = _plus(found[each.key], each) if each.key in found else each
    return tuple(found[key] for key in sorted(found))


def _value(row: CostRow, name: Dimension) -> str:
    return str(getattr(row, name.value))


def _sum_of(key: tuple[str, ...], row: CostRow) -> CostSum:
    is_comparable = row.nano_usd is not None and row.on_demand_nano_usd is not None
    is_instance = row.resource is Resource.INSTANCE
    return CostSum(
        key=key,
        nano_usd=row.nano_usd or 0,
        on_demand_nano_usd=(row.on_demand_nano_usd or 0) if is_comparable else 0,
        comparable_nano_usd=(row.nano_usd or 0) if is_comparable else 0,
        unknown=row.nano_usd is None,
        microseconds=row.microseconds if is_instance else 0,
        gpu_microseconds=row.microseconds * row.gpus if is_instance else 0.0,
        assumed_nano_usd=(row.on_demand_nano_usd or 0) if row.nano_usd is None else 0,
        uncounted=row.nano_usd is None and row.on_demand_nano_usd is None,
        mib_seconds=row.mib_seconds,
        gpu_measured=row.gpu_measured,
        gpu_busy=row.gpu_busy,
    )


def _plus(some: CostSum, more: CostSum) -> CostSum:
    return CostSum(
        key=some.key,
        nano_usd=some.nano_usd + more.nano_usd,
        on_demand_nano_usd=some.on_demand_nano_usd + more.on_demand_nano_usd,
        comparable_nano_usd=some.comparable_nano_usd + more.comparable_nano_usd,
        unknown=some.unknown + more.unknown,
        microseconds=some.microseconds + more.microseconds,
        gpu_microseconds=some.gpu_microseconds + more.gpu_microseconds,
        assumed_nano_usd=some.assumed_nano_usd + more.assumed_nano_usd,
        uncounted=some.uncounted + more.uncounted,
        mib_seconds=some.mib_seconds + more.mib_seconds,
        gpu_measured=some.gpu_measured + more.gpu_measured,
        gpu_busy=some.gpu_busy + more.gpu_busy,
    )


def key_with_names(
    by: Sequence[Dimension], names: Mapping[str, str]
) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Returns what replaces users in keys of these dimensions by what they are called: `names` has
    user as in the ledger -> name, of those where that differs."""
    shown = {
        Dimension.USER: names,
        Dimension.PAYER: {user_payer(user): user_payer(name) for user, name in names.items()},
    }
    of_key = [shown.get(dimension, {}) for dimension in by]
    return lambda key: tuple(x.get(part, part) for x, part in zip(of_key, key, strict=True))


def with_names(
    sums: Iterable[CostSum], by: Sequence[Dimension], names: Mapping[str, str]
) -> tuple[CostSum, ...]:
    """The sums with what users are called, see `key_with_names`."""
    if not names:
        return tuple(sums)
    named = key_with_names(by, names)
    return tuple(each._replace(key=named(each.key)) for each in sums)

"""Lines of the ledger: what was spent on a day, by whom, on what, and what for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum


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
    RETENTION = "retention"
    """An instance that was kept for its user after a stop."""


class Resource(StrEnum):
    """What was paid for."""

    INSTANCE = "instance"
    DISK = "disk"
    ADDRESS = "address"
    HOME = "home"
    SNAPSHOT = "snapshot"


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
    """Empty for what belongs to no lease."""
    server: str
    payer: str
    """`user:ann`, `group:research`, `project:nlp`, or `hub`."""
    profile: str
    """Slug; empty for what belongs to no lease."""
    instance_type: str
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


@dataclass(frozen=True, slots=True)
class CostSum:
    """A sum of lines that agree in some dimensions."""

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
    )

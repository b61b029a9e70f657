"""What homes and their snapshots cost by what they hold in EBS. Pure."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from ..cost_rows import CostRow, Purpose
from ..exact import price_units
from .held import MIB, StorageKey


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

"""What homes hold in EBS, in the ledger: each period is added once to the lines of its days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import zip_longest
from typing import Final

from sqlalchemy import Connection, and_, bindparam, select, update

from ....core.ledger.cost_rows import STORAGE, WHOSE, CostSum, Dimension, Filter, Resource
from ....core.ledger.storage.costs import Booked, grown, storage_rows
from ....core.ledger.storage.held import Counted, Owner, StorageKey
from ..databases.database import StoreError
from ..tables import cost_table, store_table
from . import cost_queries
from .cost_totals import Line, query_of_lines, read_sums

Prices = Mapping[tuple[Resource, str], float | None]
"""USD per GiB and month of a resource, by its volume type; None where unknown."""

_RESOURCES: Final = [each.value for each in sorted(STORAGE)]

ONLY: Final[Filter] = {Dimension.RESOURCE: _RESOURCES}
"""Allows the lines of homes and their snapshots."""


_SINCE: Final = query_of_lines(
    and_(cost_table.c.day >= bindparam("first"), cost_table.c.resource.in_(_RESOURCES)), WHOSE
)
"""The lines of storage from the day `first` on. Built once: a hub runs it again and again."""


def counted_until(connection: Connection) -> datetime | None:
    """Up to when storage is in the ledger; None if it never was."""
    until: datetime | None = connection.scalar(select(store_table.c.storage_counted_until))
    return until


def sums_since(connection: Connection, first: date) -> tuple[CostSum, ...]:
    """What homes and their snapshots have cost from that day on, by day, user and payer."""
    return read_sums(connection, _SINCE, WHOSE, {"first": first})


def add(connection: Connection, counted: Counted, prices: Prices) -> tuple[CostSum, ...]:
    """Add a period that follows the last one; returns the sums of all days that it may have
    changed, by day, user and payer.

    Repeated, it changes nothing. Raises `StoreError` for any other period.
    """
    before = counted_until(connection)
    if before != counted.until:
        if before not in {None, counted.since}:
            raise StoreError(f"storage is counted until {before}, not until {counted.since}")
        _write(connection, counted, prices)
        until = {"storage_counted_until": counted.until}
        connection.execute(update(store_table).values(until))
    # In every time zone, a day begins within a day of UTC's.
    return sums_since(connection, counted.since.date() - timedelta(days=1))


def _write(connection: Connection, counted: Counted, prices: Prices) -> None:
    lines = _lines(connection, counted)
    old: list[Line] = []
    new: list[Line] = []
    for key, more in counted.held.items():
        written = lines.get(key, [])
        price = prices[key.resource, key.volume_type]
        rows = storage_rows(key, grown(_booked(written), more, price, key.day))
        old += written
        # In place, as far as there are as many lines as before.
        for line, row in zip_longest(written, rows):
            if row is not None:
                new.append({**(line or {}), **cost_queries.row_values(row)})
    cost_queries.grow(connection, old, new)


def _booked(lines: Iterable[Line]) -> Booked:
    priced = nano_usd = unpriced = 0
    for line in lines:
        if line["nano_usd"] is None:
            unpriced += line["mib_seconds"]
        else:
            priced += line["mib_seconds"]
            nano_usd += line["nano_usd"]
    return Booked(priced, nano_usd, unpriced)


def _lines(connection: Connection, counted: Counted) -> Mapping[StorageKey, Sequence[Line]]:
    """The lines of its days."""
    if not counted.held:
        return {}
    days = [key.day for key in counted.held]
    column = cost_table.c
    query = select(cost_table).where(
        column.day.between(min(days), max(days)), column.resource.in_(_RESOURCES)
    )
    found: defaultdict[StorageKey, list[Line]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        owner = Owner(row["user_name"], row["server_name"], row["payer"])
        resource = Resource(row["resource"])
        key = StorageKey(row["day"], owner, resource, row["instance_type"], row["zone"])
        found[key].append(dict(row))
    return found

"""Read a store while a hub holds it: without a lock, and without changing anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ...core.ledger.cost_rows import (
    CostSum,
    Dimension,
    Filter,
    durations_of,
    merge_sums,
    sum_rows,
)
from ...core.ledger.segments import Segment
from ..model.lease import LeaseState, Snapshot
from ..model.lease_costs import costs_of
from . import queries, tables
from .databases.backends import open_database
from .databases.database import Database, StoreError
from .ledger import cost_queries

RECENT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Peek:
    """What a store holds."""

    store_id: str
    hub_runs: bool
    """Another process holds the store."""
    snapshot: Snapshot
    lease_states: Mapping[str, LeaseState]
    """Of the leases that were asked for and that the store knows."""


async def peek(url: str, lease_ids: Collection[str], *, now: datetime) -> Peek:
    """Read the store at `url`. Raises `StoreError`, also where there is none."""
    return await asyncio.to_thread(_peek, url, lease_ids, now)


def _peek(url: str, lease_ids: Collection[str], now: datetime) -> Peek:
    database = open_database(url)

    def read(connection: Connection) -> Peek:
        return Peek(
            store_id=connection.scalars(select(tables.store_table.c.store_id)).one(),
            hub_runs=False,
            snapshot=queries.snapshot(connection, now - RECENT, date.max),
            lease_states=queries.lease_states(connection, lease_ids),
        )

    with _explained(database):
        hub_runs = database.is_held()
        found = database.peek(read)
    return Peek(found.store_id, hub_runs, found.snapshot, found.lease_states)


@dataclass(frozen=True, slots=True)
class LedgerQuery:
    """Which part of the ledger is read."""

    since: date
    until: date
    """The last day, inclusive; both in the hub's time zone."""
    by: Sequence[Dimension]
    time_zone: tzinfo
    """The hub's."""
    segments_between: tuple[datetime, datetime] | None = None
    """Also the segments that overlap the time between these, UTC; None for no segments."""
    only: Filter = field(default_factory=dict)
    durations: bool = False
    """Also how long what was paid for existed."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """A part of the ledger, as it was at one instant."""

    costs: Sequence[CostSum]
    """Of what has ended, and of open leases up to the instant."""
    segments: Sequence[Segment]
    """Of leases and of overhead, oldest first, if they were asked for; of every user."""
    durations: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """By the keys of `costs`, in microseconds, if they were asked for."""


async def read_ledger(url: str, query: LedgerQuery, *, now: datetime) -> Ledger:
    """Read the ledger of the store at `url`. Raises `StoreError`, also where there is none."""
    return await asyncio.to_thread(_read_ledger, url, query, now)


def _read_ledger(url: str, query: LedgerQuery, now: datetime) -> Ledger:
    database = open_database(url)

    def read(connection: Connection) -> Ledger:
        ended = cost_queries.costs(connection, query.since, query.until, query.by, query.only)
        rows = [
            row
            for lease in queries.open_leases(connection)
            for row in costs_of(lease, now, query.time_zone)
            if query.since <= row.day <= query.until
        ]
        durations: Counter[tuple[str, ...]] = Counter()
        if query.durations:
            days = query.since, query.until
            durations.update(cost_queries.durations(connection, *days, query.by, query.only))
            durations.update(durations_of(rows, query.by, query.only))
        between = query.segments_between
        return Ledger(
            costs=merge_sums(ended, sum_rows(rows, query.by, query.only)),
            segments=queries.segments(connection, *between) if between else (),
            durations=durations,
        )

    with _explained(database):
        return database.peek(read)


@contextmanager
def _explained(database: Database) -> Iterator[None]:
    """What fails in the block raises `StoreError`."""
    try:
        yield
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise StoreError(
            f"{database.explained(error)}. If its schema is another version's, use the "
            "ec2spawner of the hub"
        ) from error

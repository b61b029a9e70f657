"""Read a store while a hub holds it: without a lock, and without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ..model.lease import LeaseState, Snapshot
from . import queries, tables
from .backends import open_database
from .database import StoreError

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

    try:
        hub_runs = database.is_held()
        found = database.peek(read)
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise StoreError(
            f"{database.explained(error)}. If its schema is another version's, use the "
            "ec2spawner of the hub"
        ) from error
    return Peek(found.store_id, hub_runs, found.snapshot, found.lease_states)

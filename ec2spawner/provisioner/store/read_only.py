"""Read a store while a hub holds it: without a lock, and without changing anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from sqlalchemy import Connection, and_, false, null, or_, select
from sqlalchemy.exc import SQLAlchemyError

from ...core.ledger.cost_rows import (
    Cause,
    CostSum,
    Dimension,
    Filter,
    durations_of,
    key_with_names,
    merge_sums,
    sum_rows,
    with_names,
)
from ...core.ledger.segments import Segment
from ...core.starts.summary import GroupOfStarts, MeasuredStart, summary
from ..model.account_names import AccountNames
from ..model.leases.costs import costs_of
from ..model.leases.lease import LeaseState, Snapshot
from . import queries, start_phases, tables, user_accounts
from .databases.backends import open_database
from .databases.database import Database, StoreError
from .ledger import cost_queries

RECENT: Final = timedelta(hours=1)

MAX_STARTS: Final = 1000
"""Past starts that are read: enough for a 95th percentile."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What a store holds."""

    store_id: str
    hub_runs: bool
    """Another process holds the store."""
    snapshot: Snapshot
    lease_states: Mapping[str, LeaseState]
    """Of the leases that were asked for and that the store knows."""
    names: AccountNames = field(default_factory=AccountNames)
    """What the users are called whose keys are in the snapshot."""


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
            names=AccountNames(user_accounts.load(connection)),
        )

    with _explained(database):
        hub_runs = database.is_held()
        return replace(database.peek(read), hub_runs=hub_runs)


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
        names = AccountNames(user_accounts.load(connection))
        only = dict(query.only)
        if Dimension.USER in only:
            only[Dimension.USER] = [x for x in map(names.named, only[Dimension.USER]) if x]
        ended = cost_queries.costs(connection, query.since, query.until, query.by, only)
        rows = [
            row
            for lease in queries.open_leases(connection)
            for row in costs_of(lease, now, query.time_zone)
            if query.since <= row.day <= query.until
        ]
        durations: Counter[tuple[str, ...]] = Counter()
        if query.durations:
            days = query.since, query.until
            durations.update(cost_queries.durations(connection, *days, query.by, only))
            durations.update(durations_of(rows, query.by, only))
        between, renamed = query.segments_between, names.renamed()
        named = key_with_names(query.by, renamed)
        return Ledger(
            costs=with_names(merge_sums(ended, sum_rows(rows, query.by, only)), query.by, renamed),
            segments=queries.segments(connection, *between) if between else (),
            durations={named(key): duration for key, duration in durations.items()},
        )

    with _explained(database):
        return database.peek(read)


@dataclass(frozen=True, slots=True)
class FreshStart:
    """A start that waited for its instance to boot, and got ready. Instants in UTC."""

    requested_at: datetime
    assigned_at: datetime
    """When it got its instance, which had booted."""
    ready_at: datetime


async def read_fresh_starts(url: str, profile: str, since: datetime) -> Sequence[FreshStart]:
    """Starts of a profile since an instant, latest first. Not those that waited for spot, whose
    instance was replaced, or for which an instance was up already. Raises `StoreError`, also where
    there is no store."""
    return await asyncio.to_thread(_read_fresh_starts, url, profile, since)


def _read_fresh_starts(url: str, profile: str, since: datetime) -> Sequence[FreshStart]:
    column = tables.lease_table.c
    starts = (
        select(column.requested_at, column.assigned_at, column.ready_at)
        .where(
            queries.instance_has_booted_for(column),
            column.profile == profile,
            column.ready_at >= since,
            column.assigned_at.is_not(None),
            column.replaced == 0,
            column.on_retained == false(),
            column.continues == "",
            column.wait.is_(null()),
        )
        .order_by(column.ready_at.desc())
        .limit(MAX_STARTS)
    )
    database = open_database(url)
    with _explained(database):
        return database.peek(
            lambda connection: [FreshStart(*row) for row in connection.execute(starts)]
        )


@dataclass(frozen=True, slots=True)
class SlowStart:
    """One start, and whose it was."""

    start: MeasuredStart
    requested_at: datetime
    """UTC."""
    user: str
    server: str
    """Empty for the default server."""
    instance_id: str


async def read_starts(
    url: str, since: datetime, until: datetime, profile: str = "", *, slowest: int
) -> tuple[Sequence[GroupOfStarts], Sequence[SlowStart]]:
    """The starts that were requested from `since` on, before `until`, both UTC, of one profile or
    of all; and so many of the slowest. Raises `StoreError`, also where there is no store."""
    return await asyncio.to_thread(_read_starts, url, since, until, profile, slowest)


def _read_starts(
    url: str, since: datetime, until: datetime, profile: str, slowest: int
) -> tuple[Sequence[GroupOfStarts], Sequence[SlowStart]]:
    database = open_database(url)

    def read(
        connection: Connection,
    ) -> tuple[Sequence[GroupOfStarts], Sequence[SlowStart]]:
        starts = start_phases.measured_starts(connection, since, until, profile)
        found = summary(starts, slowest)
        return found.groups, _named(connection, found.slowest)

    with _explained(database):
        return database.peek(read)


def _named(connection: Connection, starts: Sequence[MeasuredStart]) -> Sequence[SlowStart]:
    column = tables.lease_table.c
    query = select(
        column.lease_id,
        column.requested_at,
        column.user_name,
        column.server_name,
        column.instance_id,
    ).where(column.lease_id.in_([start.lease_id for start in starts]))
    leases = {row.lease_id: row for row in connection.execute(query)}
    names = AccountNames(user_accounts.load(connection))
    return [
        SlowStart(
            start,
            row.requested_at,
            names.name(row.user_name),
            row.server_name,
            row.instance_id or "",
        )
        for start in starts
        if (row := leases.get(start.lease_id)) is not None
    ]


@dataclass(frozen=True, slots=True)
class UserStart:
    """One start of a user, and what it got."""

    user: str
    start: MeasuredStart
    instance_type: str
    """Empty where it got no instance, as is the zone."""
    zone: str


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of some users, and what all their instances have cost."""

    starts: Sequence[UserStart]
    """Those that are over, in the order of their requests."""
    nano_usd: int
    """As far as prices are known: the lines of the leases that have ended, and the overhead of
    their instances."""
    unknown: int
    """Lines without a price."""
    open_leases: int
    """Those whose cost the ledger does not have yet."""


async def read_starts_of(url: str, users: Collection[str]) -> Starts:
    """Raises `StoreError`, also where there is no store."""
    return await asyncio.to_thread(_read_starts_of, url, users)


def _read_starts_of(url: str, users: Collection[str]) -> Starts:
    lease, cost, segment = tables.lease_table.c, tables.cost_table.c, tables.segment_table.c
    leases = (
        select(lease.lease_id, lease.user_name, lease.state, lease.requested_at)
        .where(lease.user_name.in_(users))
        .order_by(lease.requested_at)
    )
    ids = select(lease.lease_id).where(lease.user_name.in_(users))
    instances = select(segment.instance_id).where(segment.lease_id.in_(ids))
    lines = select(cost.nano_usd).where(
        or_(
            cost.lease_id.in_(ids),
            and_(
                cost.lease_id.is_(None),
                cost.instance_id.in_(instances),
                cost.cause != Cause.POOL,  # they waited before, for anybody
            ),
        )
    )
    places = (
        select(segment.lease_id, segment.instance_type, segment.zone)
        .where(segment.lease_id.in_(ids))
        .order_by(segment.started_at)
    )
    database = open_database(url)

    def read(connection: Connection) -> Starts:
        found = connection.execute(leases).all()
        place = {row.lease_id: (row.instance_type, row.zone) for row in connection.execute(places)}
        measured = start_phases.measured_starts_of(connection, [row.lease_id for row in found])
        sums = connection.scalars(lines).all()
        return Starts(
            starts=[
                UserStart(row.user_name, measured[row.lease_id], *place.get(row.lease_id, ("", "")))
                for row in found
                if row.lease_id in measured
            ],
            nano_usd=sum(each for each in sums if each is not None),
            unknown=sum(each is None for each in sums),
            open_leases=sum(row.state != LeaseState.ENDED for row in found),
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

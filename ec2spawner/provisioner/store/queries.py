"""The store's queries in SQL. Each function reads within the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    exists,
    func,
    or_,
    select,
    union,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from ...core.ledger.cost_rows import WHOSE, CostSum, Dimension, Filter
from ...core.ledger.rehearsals import KEY
from ...core.ledger.segments import Segment
from ...wire import Step
from ..model.leases.lease import (
    ENDED_LATELY,
    INTERRUPTED_LATELY,
    OPEN,
    Binding,
    Intent,
    IntentState,
    Lease,
    LeaseState,
    Snapshot,
    StepEvent,
)
from . import denied_starts, pool_overrides, rows, runs, session_queries, sleeping_sessions, tables
from .ledger import cost_queries, storage_costs

REHEARSALS_LOADED: Final = timedelta(days=2)
"""An instance ends within a quarter of an hour of its rehearsal, and EC2 lists it for about an hour
more. Days of the ledger are those of the hub's time zone."""

BINDINGS_LOADED: Final = timedelta(days=30)
"""Bindings older than this are loaded only where an open lease holds their instance. Leaving
one out is safe: `Store.save_binding` checks the database, which keeps all of them."""


INTERRUPTIONS_LOADED: Final = 1000
"""Each is a lease with its events and segments: many more make a start of the hub slow."""

PAID_SEGMENTS: Final = 50
"""An instance whose spot price changes often has hundreds; a price known last is among the last."""

NEWEST_STARTS: Final = 10
"""For each start whose durations are wanted, so many of the newest are read: where the warm pool
serves all others, none may be among them."""

NO_COSTS: Final[Filter] = {Dimension.PAYER: ()}
"""Allows none."""


def snapshot(
    connection: Connection,
    since: datetime,
    costs_since: date,
    older_costs: Filter | None = NO_COSTS,
) -> Snapshot:
    """All that still matters; of the answered intents those created at `since` or later, and of
    what has ended its cost from the day `costs_since` on, and what `older_costs` allows before.

    Without older costs, how long that takes does not depend on how much has ended: each part is
    found by an index.
    """
    kept = select(tables.kept_table).order_by(tables.kept_table.c.instance_id)
    homes = select(tables.home_table).order_by(tables.home_table.c.home_id)
    counted_until = storage_costs.counted_until(connection)
    # Also the days that the next count may change, after a downtime of months.
    storage_since = min(costs_since, (counted_until or since).date() - timedelta(days=1))
    return Snapshot(
        leases=leases(connection, _open_leases()),
        intents=_intents(connection, _unanswered_or_young(since)),
        bindings=_bindings(connection, since - BINDINGS_LOADED),
        homes=tuple(map(rows.home_from, _mappings(connection, homes))),
        kept=tuple(map(rows.kept_from, _mappings(connection, kept))),
        ended_lately=leases(connection, _newest_ended(since - ENDED_LATELY)),
        continued=leases(connection, session_queries.continued()),
        ended_workers=session_queries.ended_workers(connection),
        denied_starts=denied_starts.load(connection),
        pool_overrides=pool_overrides.load(connection),
        sleeping=sleeping_sessions.load(connection),
        runs=runs.load(connection, since - runs.KEPT),
        last_run=runs.last_number(connection),
        interrupted=leases(connection, _interrupted(since - INTERRUPTED_LATELY)),
        rehearsed=cost_queries.with_overhead(connection, KEY, since.date() - REHEARSALS_LOADED),
        costs=(
            *_older_costs(connection, costs_since, older_costs),
            *cost_queries.costs(connection, costs_since, date.max, WHOSE),
        ),
        storage_costs=(
            *_older_costs(connection, storage_since, older_costs, storage_costs.ONLY),
            *storage_costs.sums_since(connection, storage_since),
        ),
        storage_counted_until=counted_until,
    )


def _older_costs(
    connection: Connection, until: date, allowed: Filter | None, only: Filter | None = None
) -> Sequence[CostSum]:
    if allowed is not None and not all(allowed.values()):
        return ()
    last = until - timedelta(days=1)
    wanted = {**(allowed or {}), **(only or {})}
    return cost_queries.costs(connection, date.min, last, WHOSE, wanted)


def _open_leases() -> Select[tuple[str]]:
    lease = tables.lease_table.c
    # Not `!= ENDED`, which would not use the index.
    return select(lease.lease_id).where(lease.state.in_(sorted(OPEN)))


def _unanswered_or_young(since: datetime) -> CompoundSelect[tuple[str]]:
    # Two searches: with `or` and an order, SQLite reads the whole table.
    intent = tables.intent_table.c
    return union(
        select(intent.client_token).where(intent.state == IntentState.OPEN),
        select(intent.client_token).where(intent.created_at >= since),
    )


def _intents(connection: Connection, tokens: CompoundSelect[tuple[str]]) -> tuple[Intent, ...]:
    intent = tables.intent_table.c
    query = (
        select(tables.intent_table)
        .where(intent.client_token.in_(tokens))
        .order_by(intent.created_at, intent.client_token)
    )
    return tuple(map(rows.intent_from, _mappings(connection, query)))


def _bindings(connection: Connection, since: datetime) -> tuple[Binding, ...]:
    """Those of `since` or later, and of the instances that open leases hold."""
    lease, binding = tables.lease_table.c, tables.binding_table.c
    held = select(lease.instance_id).where(
        lease.state.in_(sorted(OPEN)), lease.instance_id.is_not(None)
    )
    wanted = union(select(binding.instance_id).where(binding.bound_at >= since), held)
    query = (
        select(tables.binding_table)
        .where(binding.instance_id.in_(wanted))
        .order_by(binding.bound_at, binding.instance_id)
    )
    return tuple(map(rows.binding_from, _mappings(connection, query)))


def open_leases(connection: Connection) -> tuple[Lease, ...]:
    """The leases that have not ended, oldest first."""
    return leases(connection, _open_leases())


def lease_states(connection: Connection, lease_ids: Collection[str]) -> dict[str, LeaseState]:
    """Lease id -> state, of those that the store knows."""
    lease = tables.lease_table.c
    query = select(lease.lease_id, lease.state).where(lease.lease_id.in_(lease_ids))
    return {lease_id: LeaseState(state) for lease_id, state in connection.execute(query)}


def intents(connection: Connection, client_tokens: Collection[str]) -> tuple[Intent, ...]:
    """The launch calls with these tokens, of any age."""
    column = tables.intent_table.c.client_token
    query = select(tables.intent_table).where(column.in_(client_tokens)).order_by(column)
    return tuple(map(rows.intent_from, _mappings(connection, query)))


def overhead(connection: Connection, since: datetime) -> tuple[Segment, ...]:
    """Segments of no lease that ended after `since` or have not ended, oldest first."""
    column = tables.segment_table.c
    query = (
        select(tables.segment_table)
        .where(
            column.lease_id.is_(None),
            or_(column.ended_at.is_(None), column.ended_at > since),
        )
        .order_by(column.started_at, column.segment_id)
    )
    return tuple(map(rows.segment_from, _mappings(connection, query)))


def segments(connection: Connection, since: datetime, before: datetime) -> tuple[Segment, ...]:
    """Segments of leases and of none that overlap the time from `since` up to `before`."""
    column = tables.segment_table.c
    query = (
        select(tables.segment_table)
        .where(
            column.started_at < before,
            or_(column.ended_at.is_(None), column.ended_at > since),
        )
        .order_by(column.started_at, column.segment_id)
    )
    return tuple(map(rows.segment_from, _mappings(connection, query)))


def last_served(connection: Connection, instance_id: str) -> tuple[str, datetime] | None:
    """Id and end of the instance's last lease that has ended; None where it served none.

    The last is the one whose segments were written last: by the hub's clock, which can be set, it
    may have ended before others.
    """
    column = tables.segment_table.c
    query = (
        select(column.lease_id, column.ended_at)
        .where(column.instance_id == instance_id, column.lease_id.is_not(None))
        .where(column.ended_at.is_not(None))
        .order_by(column.segment_id.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return (row.lease_id, row.ended_at) if row else None


def paid_segments(connection: Connection, instance_id: str, key: str) -> tuple[Segment, ...]:
    """The segments of an instance that belong to leases, and that of its overhead with this key,
    the newest `PAID_SEGMENTS`; the last written first."""
    column = tables.segment_table.c
    query = (
        select(tables.segment_table)
        .where(column.instance_id == instance_id)
        .where(or_(column.lease_id.is_not(None), column.overhead_key == key))
        .order_by(column.segment_id.desc())
        .limit(PAID_SEGMENTS)
    )
    return tuple(map(rows.segment_from, _mappings(connection, query)))


def start_durations(connection: Connection, profile: str, limit: int) -> Mapping[Step, float]:
    """Median seconds of each step over the last `limit` starts of the profile that got ready, but
    for those that an instance of the warm pool waited for."""
    column = tables.lease_table.c
    newest = (
        select(column.lease_id, column.instance_id, column.requested_at, column.ready_at)
        .where(
            column.profile == profile,
            column.ready_at.is_not(None),
            column.replaced == 0,
            column.continues == "",  # it has waited for the home that its server was leaving
            column.head == "",  # a worker starts no notebook, and a run none
            column.run == 0,
        )
        .order_by(column.ready_at.desc(), column.lease_id)
        .limit(NEWEST_STARTS * limit)
        .subquery()
        .c
    )
    starts = (
        select(newest.lease_id)
        .where(instance_has_booted_for(newest))
        .order_by(newest.ready_at.desc(), newest.lease_id)
        .limit(limit)
    )
    seconds: defaultdict[Step, list[float]] = defaultdict(list)
    for story in _events_of(connection, starts).values():
        for step, duration in _step_seconds([rows.event_from(row) for row in story]).items():
            seconds[step].append(duration)
    return {step: median(durations) for step, durations in seconds.items()}


def instance_has_booted_for(lease: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[bool]:
    """Whether the instance of a lease was not up yet when the lease was requested: an instance is
    bound by its first claim, which is the end of its boot."""
    binding = tables.binding_table.c
    was_up = exists().where(
        binding.instance_id == lease.instance_id, binding.bound_at <= lease.requested_at
    )
    return ~was_up


def _step_seconds(events: Sequence[StepEvent]) -> Mapping[Step, float]:
    """How long each step took: from its event to the next; several events of a step add up.

    Without a move of the home: that depends on its size and not on the profile.
    """
    seconds: defaultdict[Step, float] = defaultdict(float)
    for current, following in pairwise(events):
        if current.step is Step.READY:
            break
        if current.step is not Step.MOVE:
            seconds[current.step] += max((following.at - current.at).total_seconds(), 0.0)
    return seconds


def _newest_ended(since: datetime) -> Select[tuple[str]]:
    """Ids of the newest lease of each (user, server) that ended at `since` or later; of workers
    and runs none.

    Of a server that continued on another instance, the last one, whichever was closed last.
    """
    lease = tables.lease_table.c
    has_ended = (lease.state == LeaseState.ENDED) & (lease.ended_at >= since)
    was_continued = (
        select(lease.continues)
        .where(has_ended, lease.taken_over["is_handed_over"].as_boolean())
        .correlate(None)
    )
    place = func.row_number().over(
        partition_by=(lease.user_name, lease.server_name),
        order_by=(lease.ended_at.desc(), lease.lease_id.desc()),
    )
    ranked = (
        select(lease.lease_id, place.label("place"))
        .where(has_ended, lease.head == "", lease.run == 0, lease.lease_id.not_in(was_continued))
        .subquery()
    )
    return select(ranked.c.lease_id).where(ranked.c.place == 1)


def _interrupted(since: datetime) -> Select[tuple[str]]:
    """Ids of the leases that an interruption ended at `since` or later, the newest of them."""
    lease = tables.lease_table.c
    return (
        select(lease.lease_id)
        .where(lease.state == LeaseState.ENDED, lease.ended_at >= since)
        .where(lease.stop["reason"].as_string() == "interruption")
        .order_by(lease.ended_at.desc())
        .limit(INTERRUPTIONS_LOADED)
    )


def past_leases(
    connection: Connection, user: str, before: datetime, limit: int
) -> tuple[Lease, ...]:
    """The user's last `limit` leases that ended earlier than `before`, the newest first."""
    lease = tables.lease_table.c
    ids = (
        select(lease.lease_id)
        .where(lease.user_name == user, lease.ended_at < before)
        .order_by(lease.ended_at.desc(), lease.lease_id)
        .limit(limit)
    )
    found = leases(connection, ids)
    return tuple(sorted(found, key=lambda each: each.ended_at or before, reverse=True))


def leases(connection: Connection, ids: Select[tuple[str]]) -> tuple[Lease, ...]:
    """The leases with these ids, with their events and segments."""
    lease, segment = tables.lease_table.c, tables.segment_table.c
    events = _events_of(connection, ids)
    segments: defaultdict[str, list[rows.Row]] = defaultdict(list)
    for row in _mappings(
        connection,
        select(tables.segment_table).where(segment.lease_id.in_(ids)).order_by(segment.segment_id),
    ):
        segments[row["lease_id"]].append(row)
    query = (
        select(tables.lease_table)
        .where(lease.lease_id.in_(ids))
        .order_by(lease.requested_at, lease.lease_id)
    )
    return tuple(
        rows.lease_from(row, events.get(row["lease_id"], ()), segments.get(row["lease_id"], ()))
        for row in _mappings(connection, query)
    )


def one_lease(connection: Connection, lease_id: str) -> Lease | None:
    """The lease with this id, in any state."""
    column = tables.lease_table.c.lease_id
    found = leases(connection, select(column).where(column == lease_id))
    return found[0] if found else None


def _events_of(connection: Connection, ids: Select[tuple[str]]) -> Mapping[str, list[rows.Row]]:
    column = tables.event_table.c
    query = (
        select(tables.event_table)
        .where(column.lease_id.in_(ids))
        .order_by(column.lease_id, column.position)
    )
    stories: defaultdict[str, list[rows.Row]] = defaultdict(list)
    for row in _mappings(connection, query):
        stories[row["lease_id"]].append(row)
    return stories


def _mappings(connection: Connection, query: Select[Any]) -> Iterable[rows.Row]:
    for row in connection.execute(query).mappings():
        yield dict(row)

"""What a store of an earlier schema lacks: the ledger of what had ended, its totals, and the
sessions with idle time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC
from typing import Final

from sqlalchemy import Connection, case, func, insert, select

from ...core.ledger.cost_rows import Cause, Purpose, Resource
from ...core.ledger.idle_savings import usd_per_hour
from ...core.ledger.lease_costs import overhead_costs
from ..model.leases.costs import costs_of
from ..model.leases.lease import LeaseState
from . import queries, rows, tables
from .ledger import cost_queries, cost_totals, idle_queries

log = logging.getLogger(__name__)

FIRST_LEDGER: Final = 5
"""Revision of the schema since which what ends is written to the ledger."""

FIRST_TOTALS: Final = 7
"""Revision of the schema since which the ledger has totals."""

FIRST_IDLE_SESSIONS: Final = 11
"""Revision of the schema since which sessions with idle time have rows of their own."""

BATCH: Final = 500
"""Leases that are in memory at once."""


def complete_ledger(connection: Connection, revision: int) -> None:
    """Write what the ledger of a store lacks that had this revision of the schema before."""
    if revision < FIRST_LEDGER:
        _record_ended(connection)
        return
    if revision < FIRST_TOTALS:
        cost_totals.rebuild(connection)
    if revision < FIRST_IDLE_SESSIONS:
        _record_idle_sessions(connection)


def _record_ended(connection: Connection) -> None:
    """Write the lines of all ended leases and of overhead, by day in UTC.

    Blocks for some seconds for ten thousand leases: not for the event loop.
    """
    lease, column = tables.lease_table.c, tables.segment_table.c
    ended = list(
        connection.scalars(select(lease.lease_id).where(lease.state == LeaseState.ENDED.value))
    )
    log.info("Writing the ledger of %d servers that have ended", len(ended))
    for start in range(0, len(ended), BATCH):
        some = select(lease.lease_id).where(lease.lease_id.in_(ended[start : start + BATCH]))
        for each in queries.leases(connection, some):
            at = each.ended_at or each.requested_at
            costs = costs_of(each, at, UTC)
            cost_queries.replace_lease_costs(connection, each.lease_id, costs)
            idle_queries.replace_idle_session(connection, each, costs)
    overhead = select(tables.segment_table).where(
        column.lease_id.is_(None), column.ended_at.is_not(None)
    )
    for row in list(connection.execute(overhead).mappings()):
        segment = rows.segment_from(dict(row))
        key = row["overhead_key"] or segment.start.isoformat()
        costs = overhead_costs([segment], Cause.UNASSIGNED, segment.start, UTC)
        cost_queries.replace_overhead_costs(connection, segment.instance_id, key, costs)


def _record_idle_sessions(connection: Connection) -> None:
    """Write the sessions with idle time of a store that has its ledger.

    Blocks for some seconds for 100,000 leases: not for the event loop.
    """
    prices = _idle_prices(connection)
    lease = tables.lease_table.c
    query = select(
        lease.lease_id,
        lease.user_name,
        lease.server_name,
        lease.ended_at,
        lease.stop_requested_at,
        lease.stop,
        lease.idle_spans,
    ).where(lease.state == LeaseState.ENDED.value, lease.ended_at.is_not(None))
    found = connection.execute(query, execution_options={"yield_per": BATCH})
    for some in found.partitions():
        new = []
        for lease_id, user, server, ended_at, stop_requested_at, stop, spans in some:
            is_idle_stop = bool(stop) and stop["reason"] == "idle"
            if spans or is_idle_stop:
                ends = stop_requested_at or ended_at
                lengths = idle_queries.lengths(rows.idle_spans_from(spans or ()), ends)
                new.append(
                    {
                        "lease_id": lease_id,
                        "user_name": user,
                        "server_name": server,
                        "ended_at": ended_at,
                        "is_idle_stop": is_idle_stop,
                        "idle_microseconds": list(lengths),
                        "idle_usd_per_hour": prices.get(lease_id),
                    }
                )
        if new:
            connection.execute(insert(tables.idle_session_table), new)


def _idle_prices(connection: Connection) -> Mapping[str, float | None]:
    """Lease id -> what an hour of its idle time has cost; None if unknown."""
    cost = tables.cost_table.c
    is_instance = cost.resource == Resource.INSTANCE.value
    query = (
        select(
            cost.lease_id,
            func.sum(cost.nano_usd),
            func.sum(case((is_instance, cost.microseconds), else_=0)),
            func.sum(case((cost.nano_usd.is_(None), 1), else_=0)),
        )
        .where(cost.lease_id.is_not(None), cost.purpose == Purpose.IDLE.value)
        .group_by(cost.lease_id)
    )
    return {
        lease_id: None if unknown else usd_per_hour(int(spent), int(lasted))
        for lease_id, spent, lasted, unknown in connection.execute(query)
    }

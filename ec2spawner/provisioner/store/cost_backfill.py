"""The ledger of what had ended before the store had one: made once, from its segments."""

from __future__ import annotations

import logging
from datetime import UTC
from typing import Final

from sqlalchemy import Connection, select

from ...core.ledger.cost_rows import Cause
from ...core.ledger.lease_costs import overhead_costs
from ..model.lease import LeaseState
from ..model.lease_costs import costs_of
from . import cost_queries, queries, rows, tables

log = logging.getLogger(__name__)

FIRST_LEDGER: Final = 5
"""Revision of the schema since which what ends is written to the ledger."""

BATCH: Final = 500
"""Leases that are in memory at once."""


def record_ended(connection: Connection) -> None:
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
            cost_queries.replace_lease_costs(connection, each.lease_id, costs_of(each, at, UTC))
    overhead = select(tables.segment_table).where(
        column.lease_id.is_(None), column.ended_at.is_not(None)
    )
    for row in list(connection.execute(overhead).mappings()):
        segment = rows.segment_from(dict(row))
        key = row["overhead_key"] or segment.start.isoformat()
        costs = overhead_costs(segment, Cause.UNASSIGNED, segment.start, UTC)
        cost_queries.replace_overhead_costs(connection, segment.instance_id, key, costs)

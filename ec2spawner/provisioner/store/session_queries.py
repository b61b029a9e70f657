"""What servers that are on have cost before, over the leases that continue each other, in SQL."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection, Select, select, union

from ...core.ledger.cost import known_nano_usd
from ...core.ledger.segments import Segment
from ..model.leases.lease import OPEN
from . import rows, tables

# Whether a lease has ended is asked by `ended_at` below: by `state`, SQLite would read the index of
# all that have ended instead of the few that the chain names.


def continued() -> Select[tuple[str]]:
    """Ids of the ended leases that an open one continues, directly or over others."""
    lease, before = tables.lease_table.c, tables.lease_table.alias("before")
    chain = (
        select(lease.continues.label("lease_id"))
        .where(lease.state.in_(sorted(OPEN)), lease.continues != "")
        .cte("chain", recursive=True)
    )
    chain = chain.union(
        select(before.c.continues)
        .join_from(chain, before, before.c.lease_id == chain.c.lease_id)
        .where(before.c.ended_at.is_not(None), before.c.continues != "")
    )
    return select(lease.lease_id).where(
        lease.lease_id.in_(select(chain.c.lease_id)), lease.ended_at.is_not(None)
    )


def ended_workers(connection: Connection) -> dict[str, tuple[int, int]]:
    """Return what the ended workers of servers that are on have cost: by id of the server's lease,
    open or `continued`, the known part in 1e-9 USD, and how many prices are unknown.

    A worker is of the owner of its server: so an index finds it.
    """
    head, worker = tables.lease_table.alias("head"), tables.lease_table.alias("worker")
    lease, segment = tables.lease_table.c, tables.segment_table
    open_ones = select(lease.lease_id).where(lease.state.in_(sorted(OPEN)))
    heads = union(open_ones, continued())
    of_head = (worker.c.user_name == head.c.user_name) & (worker.c.head == head.c.lease_id)
    query = (
        select(worker.c.head, segment)
        .join_from(head, worker, of_head)
        .join(segment, segment.c.lease_id == worker.c.lease_id)
        .where(head.c.lease_id.in_(heads), head.c.cluster.is_not(None))
        .where(worker.c.ended_at.is_not(None))
        .order_by(segment.c.segment_id)
    )
    segments: defaultdict[tuple[str, str], list[Segment]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        segments[row["head"], row["lease_id"]].append(rows.segment_from(dict(row)))
    found: dict[str, tuple[int, int]] = {}
    for (head_id, _), each in segments.items():
        (cost, unknown), before = known_nano_usd(each, each[-1].start), found.get(head_id, (0, 0))
        found[head_id] = before[0] + cost, before[1] + unknown
    return found

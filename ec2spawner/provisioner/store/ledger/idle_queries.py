"""What the idle rules are judged by, in SQL: one row for each session with idle time.

Rows are written when a lease ends, with its lines: of the leases themselves, a year would take
seconds to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, ScalarSelect, case, func, select

from ....core.ledger.cost_rows import CostRow
from ....core.ledger.idle_savings import Session, idle_usd_per_hour
from ....core.ledger.idle_spans import IdleSpan
from ...model.leases.lease import Lease, LeaseState
from ..rows import Row
from ..statements import replace_of_lease
from ..tables import idle_session_table, lease_table

_MICROSECOND: Final = timedelta(microseconds=1)


def replace_idle_session(connection: Connection, lease: Lease, costs: Iterable[CostRow]) -> None:
    """Of a lease that has ended, with its lines; written again, it is the same."""
    row = idle_session_row(lease, costs)
    new = [] if row is None else [row]
    replace_of_lease(connection, idle_session_table, lease.lease_id, new)


def idle_session_row(lease: Lease, costs: Iterable[CostRow]) -> Row | None:
    """The row of a lease that has ended; None where there was no idle time, and no idle stop."""
    is_idle_stop = lease.stop is not None and lease.stop.reason == "idle"
    if lease.ended_at is None or not (lease.idle_spans or is_idle_stop):
        return None
    return {
        "lease_id": lease.lease_id,
        "user_name": lease.user,
        "server_name": lease.server,
        "ended_at": lease.ended_at,
        "is_idle_stop": is_idle_stop,
        "idle_microseconds": list(
            lengths(lease.idle_spans, lease.stop_requested_at or lease.ended_at)
        ),
        "idle_usd_per_hour": idle_usd_per_hour(costs),
    }


def lengths(spans: Iterable[IdleSpan], ended_at: datetime) -> Iterator[int]:
    """Of idle periods, in microseconds; the last one may have lasted until the end."""
    for span in spans:
        yield max((span.end or ended_at) - span.start, timedelta()) // _MICROSECOND


def idle_sessions(
    connection: Connection, since: datetime, until: datetime
) -> tuple[int, Sequence[Session]]:
    """How many sessions ended from `since` on, before `until`, and those of them with idle time or
    an idle stop. A start that never became ready is no session."""
    lease, idle = lease_table.c, idle_session_table.c
    ended = select(func.count()).where(
        lease.state == LeaseState.ENDED,
        lease.ready_at.is_not(None),
        lease.ended_at >= since,
        lease.ended_at < until,
    )
    query = select(
        idle.ended_at,
        idle.is_idle_stop,
        idle.idle_microseconds,
        idle.idle_usd_per_hour,
        # Of others it does not matter.
        case((idle.is_idle_stop, func.coalesce(_following_start(), _running_start()))),
    ).where(idle.ended_at >= since, idle.ended_at < until)
    found = [Session._make(row) for row in connection.execute(query)]
    return connection.scalar(ended) or 0, found


def _following_start() -> ScalarSelect[datetime]:
    """When the server's next session that has ended was requested."""
    lease, idle = lease_table.c, idle_session_table.c
    return (
        select(lease.requested_at)
        .where(
            lease.user_name == idle.user_name,
            lease.server_name == idle.server_name,
            lease.ended_at > idle.ended_at,
        )
        .order_by(lease.ended_at)
        .limit(1)
        .scalar_subquery()
    )


def _running_start() -> ScalarSelect[datetime]:
    """When its session that has not ended was requested."""
    lease, idle = lease_table.c, idle_session_table.c
    return (
        select(func.min(lease.requested_at))
        .where(
            lease.user_name == idle.user_name,
            lease.server_name == idle.server_name,
            lease.ended_at.is_(None),
        )
        .scalar_subquery()
    )

"""Idle periods of sessions that have ended, in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, func, select

from ...core.ledger.cost_rows import Purpose
from ...core.ledger.idle_savings import Session
from ..model.lease import LeaseState
from .tables import cost_table, lease_table

_HOUR_NANO_USD = 3600 * 1_000_000 / 1e9
"""1e-9 USD per microsecond, as USD per hour."""


def idle_sessions(connection: Connection, since: datetime, until: datetime) -> tuple[Session, ...]:
    """The sessions that ended from `since` on, before `until`."""
    lease = lease_table.c
    query = select(
        lease.lease_id,
        lease.user_name,
        lease.server_name,
        lease.requested_at,
        lease.stop_requested_at,
        lease.ended_at,
        lease.stop,
        lease.idle_spans,
    ).where(lease.state == LeaseState.ENDED, lease.ended_at >= since, lease.ended_at < until)
    prices = _idle_prices(connection, since, until)
    return tuple(_session(row, prices) for row in connection.execute(query))


def _idle_prices(
    connection: Connection, since: datetime, until: datetime
) -> Mapping[str, float | None]:
    """Lease id -> what its idle time has cost an hour, on average; None if unknown."""
    cost, lease = cost_table.c, lease_table.c
    query = (
        select(
            cost.lease_id,
            func.sum(cost.nano_usd),
            func.sum(cost.microseconds),
            func.sum(case((cost.nano_usd.is_(None), 1), else_=0)),
        )
        .join(lease_table, lease.lease_id == cost.lease_id)
        .where(lease.state == LeaseState.ENDED, lease.ended_at >= since, lease.ended_at < until)
        .where(cost.purpose == Purpose.IDLE.value)
        .group_by(cost.lease_id)
    )
    return {
        lease_id: None if unknown else float(spent) / float(lasted) * _HOUR_NANO_USD
        for lease_id, spent, lasted, unknown in connection.execute(query)
        if lasted
    }


def _session(row: Any, prices: Mapping[str, float | None]) -> Session:
    lease_id, user, server, requested_at, stop_requested_at, ended_at, stop, spans = row
    return Session(
        user=user,
        server=server,
        requested_at=requested_at,
        ended_at=ended_at,
        stopped_as_idle=bool(stop) and stop.get("reason") == "idle",
        idle=tuple(_lengths(spans or (), stop_requested_at or ended_at)),
        idle_usd_per_hour=prices.get(lease_id),
    )


def _lengths(spans: Any, ended_at: datetime) -> Iterator[timedelta]:
    for start, end in spans:
        ends = datetime.fromisoformat(end) if end else ended_at
        yield max(ends - datetime.fromisoformat(start), timedelta())

"""What admins have set of the warm pool, and the starts that it is planned by, in SQL. Within the
caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select

from ...core.pool.targets import Override
from ...wire import Market
from ..model.leases.past_start import PastStart
from ..model.pool_override import SetByHand
from .tables import lease_table, pool_override_table

_OVERRIDE = pool_override_table.c
_LEASE = lease_table.c


def save(connection: Connection, found: SetByHand) -> None:
    """Insert it, or replace what its profile and market had; delete those that have ended."""
    override = found.override
    connection.execute(
        delete(pool_override_table).where(
            (_OVERRIDE.until <= found.at)
            | (_OVERRIDE.profile == override.profile) & (_OVERRIDE.market == override.market.value)
        )
    )
    row = {
        "profile": override.profile,
        "market": override.market.value,
        "running": override.running,
        "until": override.until,
        "set_by": found.by,
        "set_at": found.at,
        "stopped": override.stopped,
    }
    connection.execute(insert(pool_override_table), row)


def forget(connection: Connection, profile: str) -> None:
    """Delete those of all markets; none is no error."""
    connection.execute(delete(pool_override_table).where(_OVERRIDE.profile == profile))


def load(connection: Connection) -> tuple[SetByHand, ...]:
    """All that are stored, in no order."""
    return tuple(
        SetByHand(
            Override(
                row["profile"], Market(row["market"]), row["running"], row["until"], row["stopped"]
            ),
            by=row["set_by"],
            at=row["set_at"],
        )
        for row in connection.execute(select(pool_override_table)).mappings()
    )


def starts_since(
    connection: Connection, profiles: Collection[str], since: datetime
) -> Mapping[str, Sequence[PastStart]]:
    """By profile, the starts that got ready since then, in the order of their requests. A server
    that continues on another instance is no start, nor is a worker of a cluster or a run."""
    query = (
        select(_LEASE.profile, _LEASE.requested_at, _LEASE.user_name, _LEASE.server_name)
        .where(_LEASE.profile.in_(list(profiles)), _LEASE.ready_at >= since)
        .where(_LEASE.continues == "", _LEASE.head == "", _LEASE.run == 0)
        .order_by(_LEASE.requested_at)
    )
    found: dict[str, list[PastStart]] = {profile: [] for profile in profiles}
    for profile, *start in connection.execute(query):
        found[profile].append(PastStart(*start))
    return found


def first_start(connection: Connection) -> datetime | None:
    """When the first server of this store was ready; None for none."""
    first: datetime | None = connection.execute(select(func.min(_LEASE.ready_at))).scalar()
    return first

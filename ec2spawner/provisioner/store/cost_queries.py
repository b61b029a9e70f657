"""The ledger in SQL: lines written with what they belong to, and their sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from ...core.ledger.cost_rows import CostRow, CostSum, Dimension, Filter, Resource
from .tables import cost_table

_COLUMNS: Final[Mapping[Dimension, Column[Any]]] = {
    Dimension.DAY: cost_table.c.day,
    Dimension.USER: cost_table.c.user_name,
    Dimension.SERVER: cost_table.c.server_name,
    **{
        name: cost_table.c[name.value]
        for name in Dimension
        if name not in {Dimension.DAY, Dimension.USER, Dimension.SERVER}
    },
}


def replace_lease_costs(connection: Connection, lease_id: str, costs: Sequence[CostRow]) -> None:
    """The lines of a lease that has ended; written again, they are the same."""
    connection.execute(delete(cost_table).where(cost_table.c.lease_id == lease_id))
    if costs:
        connection.execute(
            insert(cost_table), [{**row_values(row), "lease_id": lease_id} for row in costs]
        )


def replace_overhead_costs(
    connection: Connection, instance_id: str, key: str, costs: Sequence[CostRow]
) -> tuple[CostSum, ...]:
    """The lines of overhead; returns the sums by day of those that they replace."""
    column = cost_table.c
    ours = and_(
        column.lease_id.is_(None), column.instance_id == instance_id, column.overhead_key == key
    )
    replaced = _sums(connection, ours, (Dimension.DAY,))
    connection.execute(delete(cost_table).where(ours))
    if costs:
        named = {"instance_id": instance_id, "overhead_key": key}
        connection.execute(insert(cost_table), [{**row_values(row), **named} for row in costs])
    return replaced


def refund_overhead_costs(
    connection: Connection, instance_id: str, boot: str
) -> tuple[CostSum, ...]:
    """Let the lines of overhead of one boot cost nothing; returns the sums by day of what they
    were."""
    column = cost_table.c
    charged = and_(
        column.lease_id.is_(None),
        column.instance_id == instance_id,
        is_of_boot(column.overhead_key, boot),
        or_(column.nano_usd.is_(None), column.nano_usd != 0),
    )
    before = _sums(connection, charged, (Dimension.DAY,))
    connection.execute(update(cost_table).where(charged).values(nano_usd=0))
    return before


def is_of_boot(key: Column[Any], boot: str) -> ColumnElement[bool]:
    """Whether a key of overhead is of this boot, after any lease."""
    return or_(key == boot, key.startswith(f"{boot} ", autoescape=True))


def costs(
    connection: Connection,
    since: date,
    until: date,
    by: Sequence[Dimension],
    only: Filter | None = None,
    without: Collection[str] = (),
) -> tuple[CostSum, ...]:
    """Sums of the days from `since` to `until`, both included, by these dimensions; `without`
    these leases."""
    lease_id = cost_table.c.lease_id
    wanted = [_COLUMNS[name].in_(_bound(name, allowed)) for name, allowed in (only or {}).items()]
    others = [or_(lease_id.is_(None), lease_id.not_in(without))] if without else []
    days = cost_table.c.day.between(since, until)
    return _sums(connection, and_(days, *wanted, *others), by)


def _bound(name: Dimension, allowed: Any) -> list[Any]:
    return [date.fromisoformat(each) for each in allowed] if name is Dimension.DAY else [*allowed]


def _sums(connection: Connection, where: Any, by: Sequence[Dimension]) -> tuple[CostSum, ...]:
    column = cost_table.c
    both = and_(column.nano_usd.is_not(None), column.on_demand_nano_usd.is_not(None))
    of_instances = case((column.resource == Resource.INSTANCE.value, column.microseconds), else_=0)
    keys = [_COLUMNS[name] for name in by]
    query = (
        select(
            *keys,
            func.count().label("lines"),
            func.sum(column.nano_usd),
            func.sum(case((both, column.on_demand_nano_usd), else_=0)),
            func.sum(case((both, column.nano_usd), else_=0)),
            func.sum(case((column.nano_usd.is_(None), 1), else_=0)),
            func.sum(of_instances),
            func.sum(cast(of_instances, Float) * column.gpus),
        )
        .where(where)
        .group_by(*keys)
    )
    found = []
    for row in connection.execute(query):
        key, (lines, *sums) = row[: len(by)], row[len(by) :]
        if lines:
            spent, full, comparable, unknown, lasted, gpus = sums
            key = tuple(map(str, key))
            found.append(
                CostSum(
                    key=key,
                    nano_usd=int(spent or 0),
                    on_demand_nano_usd=int(full),
                    comparable_nano_usd=int(comparable),
                    unknown=int(unknown),
                    microseconds=int(lasted),
                    gpu_microseconds=float(gpus),
                )
            )
    return tuple(sorted(found, key=lambda each: each.key))


def row_values(row: CostRow) -> dict[str, Any]:
    """The columns of a line."""
    return {
        "day": row.day,
        "user_name": row.user,
        "server_name": row.server,
        "payer": row.payer,
        "profile": row.profile,
        "instance_type": row.instance_type,
        "zone": row.zone,
        "market": row.market,
        "resource": row.resource.value,
        "purpose": row.purpose.value,
        "cause": row.cause,
        "microseconds": row.microseconds,
        "gpus": row.gpus,
        "nano_usd": row.nano_usd,
        "on_demand_nano_usd": row.on_demand_nano_usd,
    }

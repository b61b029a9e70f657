"""The ledger in SQL: lines written with what they belong to, and their sums.

All lines are written here, so that their totals are never forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    tuple_,
    update,
)

from ....core.ledger.cost_rows import (
    WHOSE,
    Cause,
    CostRow,
    CostSum,
    Dimension,
    Filter,
    Resource,
)
from ....core.ledger.lease_costs import Account
from ....core.ledger.segments import OverheadKey, Segment
from ..rows import segment_from
from ..tables import cost_table, segment_table
from . import cost_totals
from .cost_totals import COLUMNS, Line, dimension_of, sums_of_lines, sums_of_totals


def replace_lease_costs(connection: Connection, lease_id: str, costs: Sequence[CostRow]) -> None:
    """The lines of a lease that has ended; written again, they are the same."""
    ours = cost_table.c.lease_id == lease_id
    _replace(connection, ours, [{**row_values(row), "lease_id": lease_id} for row in costs])


def replace_overhead_costs(
    connection: Connection, instance_id: str, key: str, costs: Sequence[CostRow]
) -> tuple[CostSum, ...]:
    """The lines of overhead; returns the sums of those that they replace, by `WHOSE`."""
    replaced = overhead_costs(connection, instance_id, key)
    named = {"instance_id": instance_id, "overhead_key": key}
    ours = _of_overhead(instance_id, key)
    _replace(connection, ours, [{**row_values(row), **named} for row in costs])
    return replaced


def overhead_costs(connection: Connection, instance_id: str, key: str) -> tuple[CostSum, ...]:
    """The sums of the lines of overhead with this key, by `WHOSE`."""
    return sums_of_lines(connection, _of_overhead(instance_id, key), WHOSE)


def whose_overhead(
    connection: Connection, instance_id: str, key: str
) -> tuple[Cause, Account] | None:
    """Why there is overhead with this key, and to whom it is charged."""
    column = cost_table.c
    query = (
        select(column.cause, column.user_name, column.server_name, column.payer, column.profile)
        .where(_of_overhead(instance_id, key), column.cause != Cause.MINIMUM.value)
        .limit(1)
    )
    found = connection.execute(query).first()
    return None if found is None else (Cause(found[0]), Account(*found[1:]))


def has_overhead_named(connection: Connection, instance_id: str, prefix: str) -> bool:
    """Whether there is overhead of an instance whose key begins so."""
    column = cost_table.c
    named = column.overhead_key.startswith(prefix, autoescape=True)
    query = select(column.cost_id).where(column.instance_id == instance_id, named).limit(1)
    return connection.execute(query).first() is not None


def with_overhead(connection: Connection, key: str, since: date) -> tuple[str, ...]:
    """The ids under which there is overhead with this key, of that day or later."""
    column = cost_table.c
    query = (
        select(column.instance_id)
        .where(column.day >= since, column.lease_id.is_(None), column.overhead_key == key)
        .distinct()
        .order_by(column.instance_id)
    )
    return tuple(connection.execute(query).scalars())


def running_overhead(connection: Connection) -> dict[OverheadKey, list[Segment]]:
    """Segments of no lease, in their order, by instance and key, where the last one had not ended
    when it was stored."""
    column = segment_table.c
    names = tuple_(column.instance_id, column.overhead_key)
    running = select(column.instance_id, column.overhead_key).where(
        column.lease_id.is_(None), column.ended_at.is_(None), column.overhead_key.is_not(None)
    )
    query = (
        select(segment_table)
        .where(column.lease_id.is_(None), names.in_(running))
        .order_by(column.segment_id)
    )
    found: dict[OverheadKey, list[Segment]] = {}
    for row in connection.execute(query).mappings():
        key = row["instance_id"], row["overhead_key"]
        found.setdefault(key, []).append(segment_from(dict(row)))
    return found


def overhead_segments(connection: Connection, instance_id: str, key: str) -> tuple[Segment, ...]:
    """The segments of overhead with this key, in their order."""
    column = segment_table.c
    query = (
        select(segment_table)
        .where(column.lease_id.is_(None), column.instance_id == instance_id)
        .where(column.overhead_key == key)
        .order_by(column.segment_id)
    )
    return tuple(segment_from(dict(row)) for row in connection.execute(query).mappings())


def leased_since(connection: Connection, instance_id: str) -> datetime | None:
    """Return when the first lease of an instance began to pay for it; None without any."""
    column = segment_table.c
    query = (
        select(column.started_at)
        .where(column.instance_id == instance_id, column.lease_id.is_not(None))
        .order_by(column.started_at)
        .limit(1)
    )
    return connection.execute(query).scalar()


def last_overhead(connection: Connection, instance_id: str) -> tuple[str, int] | None:
    """The last key of overhead under this id, in their order, and how long its lines of instances
    have lasted, in microseconds."""
    column = cost_table.c
    query = (
        select(column.overhead_key, func.sum(column.microseconds))
        .where(
            column.lease_id.is_(None),
            column.instance_id == instance_id,
            column.overhead_key.is_not(None),
            column.resource == Resource.INSTANCE.value,
        )
        .group_by(column.overhead_key)
        .order_by(column.overhead_key.desc())
        .limit(1)
    )
    found = connection.execute(query).first()
    return None if found is None else (str(found[0]), int(found[1]))


def _of_overhead(instance_id: str, key: str) -> ColumnElement[bool]:
    column = cost_table.c
    return and_(
        column.lease_id.is_(None), column.instance_id == instance_id, column.overhead_key == key
    )


def refund_overhead_costs(
    connection: Connection, instance_id: str, boot: str
) -> tuple[CostSum, ...]:
    """Let the instance's lines of overhead of one boot cost nothing; returns the sums of what
    they were, by `WHOSE`. Its disks and address are charged."""
    before, charged = charged_overhead(connection, instance_id, boot), _charged(instance_id, boot)
    lines = _lines(connection, charged)
    connection.execute(update(cost_table).where(charged).values(nano_usd=0))
    cost_totals.change(connection, lines, [{**line, "nano_usd": 0} for line in lines])
    return before


def charged_overhead(connection: Connection, instance_id: str, boot: str) -> tuple[CostSum, ...]:
    """The sums of the lines that a refund changes, by `WHOSE`."""
    return sums_of_lines(connection, _charged(instance_id, boot), WHOSE)


def _charged(instance_id: str, boot: str) -> ColumnElement[bool]:
    column = cost_table.c
    return and_(
        column.lease_id.is_(None),
        column.instance_id == instance_id,
        is_of_boot(column.overhead_key, boot),
        column.resource == Resource.INSTANCE.value,
        or_(column.nano_usd.is_(None), column.nano_usd != 0),
    )


def grow(connection: Connection, old: Sequence[Line], new: Sequence[Line]) -> None:
    """Write lines of which those with a `cost_id` replace the `old` ones, in place; delete old ones
    that have no successor."""
    grown = [
        {"of_cost": line["cost_id"], **{name: line[name] for name in _GROWING}}
        for line in new
        if "cost_id" in line
    ]
    if grown:
        connection.execute(_GROW, grown)
    kept = {line.get("cost_id") for line in new}
    gone = [{"of_cost": line["cost_id"]} for line in old if line["cost_id"] not in kept]
    if gone:
        connection.execute(_DELETE, gone)
    if added := [line for line in new if "cost_id" not in line]:
        connection.execute(insert(cost_table), added)
    cost_totals.change(connection, old, new)


_GROWING: Final = ("mib_seconds", "nano_usd", "on_demand_nano_usd")

_GROW: Final = (
    update(cost_table)
    .where(cost_table.c.cost_id == bindparam("of_cost"))
    .values({name: bindparam(name) for name in _GROWING})
)

_DELETE: Final = delete(cost_table).where(cost_table.c.cost_id == bindparam("of_cost"))


def is_of_boot(key: Column[Any], boot: str) -> ColumnElement[bool]:
    """Whether a key of overhead is of this boot, after any lease."""
    return or_(key == boot, key.startswith(f"{boot} ", autoescape=True))


def _replace(connection: Connection, ours: ColumnElement[bool], new: Sequence[Line]) -> None:
    """Write lines instead of those that there are."""
    old = _lines(connection, ours)
    if old:
        connection.execute(delete(cost_table).where(ours))
    if new:
        connection.execute(insert(cost_table), new)
    cost_totals.change(connection, old, new)


def _lines(connection: Connection, where: ColumnElement[bool]) -> Sequence[Line]:
    return [dict(row) for row in connection.execute(select(cost_table).where(where)).mappings()]


def costs(
    connection: Connection,
    since: date,
    until: date,
    by: Sequence[Dimension],
    only: Filter | None = None,
    without: Collection[str] = (),
    without_overhead: Collection[OverheadKey] = (),
) -> tuple[CostSum, ...]:
    """Sums of the days from `since` to `until`, both included, by these dimensions.

    `only` limits them to these values, `without` leaves out leases by their ids, and
    `without_overhead` overhead.
    """
    column = cost_table.c
    dimension = dimension_of(by, only)
    if dimension is not None:
        left_out: list[ColumnElement[bool]] = []
        if without:
            left_out.append(column.lease_id.in_(without))
        if without_overhead:
            left_out.append(and_(column.lease_id.is_(None), _key_of_line.in_(without_overhead)))
        return sums_of_totals(connection, (since, until), by, dimension, left_out)
    wanted: list[ColumnElement[bool]] = [
        COLUMNS[name].in_(_bound(name, allowed)) for name, allowed in (only or {}).items()
    ]
    others = [or_(column.lease_id.is_(None), column.lease_id.not_in(without))] if without else []
    if without_overhead:
        # What is stored for homes has no key: NULL would be "not in" no list.
        has_key = and_(column.lease_id.is_(None), column.overhead_key.is_not(None))
        others.append(or_(not_(has_key), _key_of_line.not_in(without_overhead)))
    return sums_of_lines(connection, and_(column.day.between(since, until), *wanted, *others), by)


_key_of_line: Final = tuple_(cost_table.c.instance_id, cost_table.c.overhead_key)
"""Of overhead: an `OverheadKey`."""


def durations(
    connection: Connection,
    since: date,
    until: date,
    by: Sequence[Dimension],
    only: Filter | None = None,
) -> dict[tuple[str, ...], int]:
    """`core.ledger.cost_rows.durations_of` the lines of these days, both included."""
    column = cost_table.c
    keys = [COLUMNS[name] for name in by]
    wanted = [COLUMNS[name].in_(_bound(name, allowed)) for name, allowed in (only or {}).items()]
    query = (
        select(*keys, func.sum(column.microseconds))
        .where(column.day.between(since, until), *wanted)
        .group_by(*keys)
    )
    return {tuple(map(str, row[:-1])): int(row[-1]) for row in connection.execute(query)}


def _bound(name: Dimension, allowed: Any) -> list[Any]:
    return [date.fromisoformat(each) for each in allowed] if name is Dimension.DAY else [*allowed]


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
        "mib_seconds": row.mib_seconds,
        "gpu_measured": row.gpu_measured,
        "gpu_busy": row.gpu_busy,
    }

"""Statements that write single rows, made once for each table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import (
    Connection,
    Delete,
    Insert,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    or_,
    update,
)

from ...core.ledger.segments import Segment
from . import rows
from .tables import segment_table


def upsert(connection: Connection, table: Table, row: rows.Row) -> None:
    """Insert the row, or replace the one with its key."""
    key = table.primary_key.columns[0]
    if connection.execute(_update_of(table), {**row, "of_key": row[key.name]}).rowcount == 0:
        connection.execute(_insert_into(table), row)


def replace_of_lease(
    connection: Connection, table: Table, lease_id: str, new: Sequence[rows.Row]
) -> None:
    """Replace all rows of a lease."""
    connection.execute(_delete_from(table), {"of_lease": lease_id})
    if new:
        connection.execute(_insert_into(table), new)


def replace_overhead(connection: Connection, segments: Sequence[Segment], key: str) -> None:
    """Insert segments of one instance and of no lease, or replace those with this key."""
    column, first = segment_table.c, segments[0]
    connection.execute(
        delete(segment_table).where(
            column.lease_id.is_(None),
            column.instance_id == first.instance_id,
            or_(
                column.overhead_key == key,
                and_(column.overhead_key.is_(None), column.started_at == first.start),
            ),
        )
    )
    new = [rows.segment_row(segment, None, key) for segment in segments]
    connection.execute(insert(segment_table), new)


# Cached: building one, and finding it among the compiled ones, takes longer than executing it.


@cache
def _update_of(table: Table) -> Update:
    return update(table).where(table.primary_key.columns[0] == bindparam("of_key"))


@cache
def _delete_from(table: Table) -> Delete:
    return delete(table).where(table.c.lease_id == bindparam("of_lease"))


@cache
def _insert_into(table: Table) -> Insert:
    return insert(table)

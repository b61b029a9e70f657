"""Alarms in SQL: what was raised, and what its destinations have not confirmed yet.

Each function works within the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select, update

from ...core.alarms.alarm import Alarm
from ...core.alarms.grouping import HOUR, Raised, admitted
from ..model.alarm_delivery import AlarmDelivery
from .tables import alarm_delivery_table, alarm_table

_ALARM = TypeAdapter(Alarm)


def add(
    connection: Connection, alarms: Sequence[Alarm], per_hour: int, destinations: Collection[str]
) -> tuple[Raised, ...]:
    """Insert the alarms that are new, and for those that are sent by themselves a delivery to each
    destination. Returns what was inserted."""
    ids = [alarm.alarm_id for alarm in alarms]
    column = alarm_table.c.alarm_id
    known = set(connection.scalars(select(column).where(column.in_(ids))))
    new = {each.alarm_id: each for each in alarms if each.alarm_id not in known}
    if not new:
        return ()
    first = min(alarm.at for alarm in new.values())
    found = admitted(raised_since(connection, first - HOUR), tuple(new.values()), per_hour)
    connection.execute(insert(alarm_table), [_row(each) for each in found])
    deliveries = [
        {"alarm_id": each.alarm.alarm_id, "destination": destination, "attempts": 0}
        for each in found
        if not each.grouped
        for destination in destinations
    ]
    if deliveries:
        connection.execute(insert(alarm_delivery_table), deliveries)
    return found


def _row(raised: Raised) -> Mapping[str, Any]:
    return {
        "alarm_id": raised.alarm.alarm_id,
        "raised_at": raised.alarm.at,
        "grouped": raised.grouped,
        "alarm": _ALARM.dump_python(raised.alarm, mode="json"),
    }


def raised_since(connection: Connection, since: datetime) -> tuple[Raised, ...]:
    """Those of `since` or later, oldest first."""
    column = alarm_table.c
    query = (
        select(column.alarm, column.grouped)
        .where(column.raised_at >= since)
        .order_by(column.raised_at, column.alarm_id)
    )
    return tuple(
        Raised(_ALARM.validate_python(row.alarm), row.grouped) for row in connection.execute(query)
    )


def undelivered(connection: Connection) -> tuple[AlarmDelivery, ...]:
    """What no destination has confirmed and nobody has given up, oldest first."""
    delivery, alarm = alarm_delivery_table.c, alarm_table.c
    query = (
        select(alarm.alarm, delivery.destination, delivery.attempts, delivery.next_at)
        .join(alarm_table, alarm.alarm_id == delivery.alarm_id)
        .where(delivery.done_at.is_(None))
        .order_by(alarm.raised_at, alarm.alarm_id, delivery.destination)
    )
    return tuple(
        AlarmDelivery(_ALARM.validate_python(row.alarm), row.destination, row.attempts, row.next_at)
        for row in connection.execute(query)
    )


def save_delivery(
    connection: Connection, delivery: AlarmDelivery, done_at: datetime | None
) -> None:
    """Store attempts and the next one; `done_at` is when it was confirmed or given up."""
    column = alarm_delivery_table.c
    connection.execute(
        update(alarm_delivery_table)
        .where(
            column.alarm_id == delivery.alarm.alarm_id, column.destination == delivery.destination
        )
        .values(attempts=delivery.attempts, next_at=delivery.next_at, done_at=done_at)
    )


def forget(connection: Connection, before: datetime) -> None:
    """Delete what was raised before then, delivered or not."""
    old = select(alarm_table.c.alarm_id).where(alarm_table.c.raised_at < before)
    connection.execute(delete(alarm_delivery_table).where(alarm_delivery_table.c.alarm_id.in_(old)))
    connection.execute(delete(alarm_table).where(alarm_table.c.raised_at < before))

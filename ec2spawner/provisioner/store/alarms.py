"""Alarms: what was raised, and what its destinations have not confirmed yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select, update

from ...core.alarms.alarm import Alarm
from ...core.alarms.grouping import HOUR, Raised, admitted
from ..model.alarm_delivery import AlarmDelivery
from .databases.database_thread import DatabaseThread
from .tables import alarm_delivery_table, alarm_table

_ALARM = TypeAdapter(Alarm)


class AlarmStore:
    """Alarms and their deliveries. All methods may raise `StoreError`."""

    def __init__(self, database: DatabaseThread) -> None:
        self._database = database

    async def add(
        self, alarms: Sequence[Alarm], per_hour: int, destinations: Collection[str]
    ) -> tuple[Raised, ...]:
        """Store the alarms that are new, with a delivery to each destination; returns those.

        Beyond `per_hour` of one kind in an hour they are grouped, and have no delivery.
        """
        return await self._database.write(
            lambda connection: _add(connection, alarms, per_hour, destinations)
        )

    async def since(self, since: datetime) -> tuple[Raised, ...]:
        """The alarms that were raised then or later, oldest first."""
        return await self._database.read(lambda connection: _raised_since(connection, since))

    async def undelivered(self) -> tuple[AlarmDelivery, ...]:
        """What some destination has not confirmed, and was not given up; oldest first."""
        delivery, alarm = alarm_delivery_table.c, alarm_table.c
        query = (
            select(alarm.alarm, delivery.destination, delivery.attempts, delivery.next_at)
            .join(alarm_table, alarm.alarm_id == delivery.alarm_id)
            .where(delivery.done_at.is_(None))
            .order_by(alarm.raised_at, alarm.alarm_id, delivery.destination)
        )
        return await self._database.read(
            lambda connection: tuple(
                AlarmDelivery(
                    _ALARM.validate_python(row.alarm), row.destination, row.attempts, row.next_at
                )
                for row in connection.execute(query)
            )
        )

    async def save_delivery(self, delivery: AlarmDelivery, done_at: datetime | None) -> None:
        """Store how often it was tried; `done_at` is when it was confirmed or given up."""
        column = alarm_delivery_table.c
        change = (
            update(alarm_delivery_table)
            .where(
                column.alarm_id == delivery.alarm.alarm_id,
                column.destination == delivery.destination,
            )
            .values(attempts=delivery.attempts, next_at=delivery.next_at, done_at=done_at)
        )
        await self._database.write(lambda connection: connection.execute(change))

    async def forget(self, before: datetime) -> None:
        """Delete the alarms that were raised before then, delivered or not."""
        old = select(alarm_table.c.alarm_id).where(alarm_table.c.raised_at < before)

        def write(connection: Connection) -> None:
            of_old = alarm_delivery_table.c.alarm_id.in_(old)
            connection.execute(delete(alarm_delivery_table).where(of_old))
            connection.execute(delete(alarm_table).where(alarm_table.c.raised_at < before))

        await self._database.write(write)


def _add(
    connection: Connection, alarms: Sequence[Alarm], per_hour: int, destinations: Collection[str]
) -> tuple[Raised, ...]:
    ids = [alarm.alarm_id for alarm in alarms]
    column = alarm_table.c.alarm_id
    known = set(connection.scalars(select(column).where(column.in_(ids))))
    new = {each.alarm_id: each for each in alarms if each.alarm_id not in known}
    if not new:
        return ()
    first = min(alarm.at for alarm in new.values())
    found = admitted(_raised_since(connection, first - HOUR), tuple(new.values()), per_hour)
    if found:
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


def _raised_since(connection: Connection, since: datetime) -> tuple[Raised, ...]:
    column = alarm_table.c
    query = (
        select(column.alarm, column.grouped)
        .where(column.raised_at >= since)
        .order_by(column.raised_at, column.alarm_id)
    )
    return tuple(
        Raised(_ALARM.validate_python(row.alarm), row.grouped) for row in connection.execute(query)
    )

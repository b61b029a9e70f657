"""What has ended costs nothing: a hub that has run for years reads and writes what a new one does.

Counted in the steps of SQLite's virtual machine: they are the same in each run, and a table that is
read whole takes some for each of its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert

from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.model.leases.lease import Binding, IntentState, LeaseState
from ec2spawner.provisioner.store import rows, tables
from ec2spawner.provisioner.store.databases import sqlite
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import Market
from tests.stored import NOW, SECOND, intent, lease, other_program, story

MONTH = timedelta(days=30)
FEW, MANY = 400, 1200
"""Servers that have ended, one each quarter of an hour before the last month. More than those whose
durations are read."""

Work = Callable[[Store], Awaitable[object]]


def write_history(url: str, number: int) -> None:
    """So many servers that have ended long ago, with all that they leave behind."""
    leases: list[Any] = []
    events: list[Any] = []
    segments: list[Any] = []
    intents: list[Any] = []
    bindings: list[Any] = []
    for n in range(number):
        at, instance_id = NOW - 2 * MONTH - n * timedelta(minutes=15), f"i-{n}"
        segment = Segment(instance_id, Market.SPOT, 0.2, at, at + 600 * SECOND)
        ended = lease(
            f"lease-{n}",
            user=f"user-{n}",
            state=LeaseState.ENDED,
            requested_at=at,
            instance_id=instance_id,
            ready_at=at + 90 * SECOND,
            ended_at=at + 600 * SECOND,
            events=story(10, 20, 30, 30, start=at),
        )
        leases.append(rows.lease_row(ended))
        events += rows.event_rows(ended)
        overhead = dataclasses.replace(segment, start=at - SECOND, end=at)
        segments += [
            rows.segment_row(segment, ended.lease_id),
            rows.segment_row(overhead, None),
        ]
        intents.append(rows.intent_row(intent(f"token-{n}", IntentState.ANSWERED, at)))
        bindings.append(rows.binding_row(Binding(instance_id, "aa", at + 30 * SECOND)))
    with other_program(url) as database, database.begin():
        database.execute(insert(tables.lease_table), leases)
        database.execute(insert(tables.event_table), events)
        database.execute(insert(tables.segment_table), segments)
        database.execute(insert(tables.intent_table), intents)
        database.execute(insert(tables.binding_table), bindings)


NEW = lease(
    "new",
    user="eve",
    state=LeaseState.READY,
    instance_id="i-new",
    events=story(1, 2, 3, 4),
    segments=(Segment("i-new", Market.SPOT, 0.2, NOW),),
)
OVERHEAD = Segment("i-3", Market.SPOT, 0.2, NOW, NOW + SECOND)

WORKS: dict[str, Work] = {
    "load": lambda store: store.load(),
    "save_lease": lambda store: store.save_lease(NEW),
    "save_intent": lambda store: store.save_intent(intent("new", IntentState.OPEN, NOW)),
    "save_binding": lambda store: store.save_binding(Binding("i-new", "aa", NOW)),
    "save_overhead": lambda store: store.ledger.save_overhead([OVERHEAD], "boot"),
    "last_served": lambda store: store.last_served("i-1"),
    "intents": lambda store: store.intents(["token-1", "token-2"]),
    "start_durations": lambda store: store.start_durations("t4"),
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number: the steps of all that was done in any database so far."""
    counted = [0]

    def count() -> None:
        counted[0] += 1

    def counting(url: Any, **options: Any) -> Engine:
        engine = create_engine(url, **options)
        event.listen(engine, "connect", lambda raw, _: raw.set_progress_handler(count, 1))
        return engine

    monkeypatch.setattr(sqlite, "create_engine", counting)
    return counted


async def steps_after(ended: int, url: str, steps: list[int]) -> dict[str, int]:
    """What each work takes in a store in which so many servers have ended."""
    await (await Store.open(url, now=NOW)).close()
    write_history(url, ended)
    store = await Store.open(url, now=NOW)
    await store.save_lease(NEW)
    taken = {}
    for name, work in WORKS.items():
        before = steps[0]
        await work(store)
        taken[name] = steps[0] - before
    await store.close()
    return taken


async def test_time_does_not_grow_with_ended_leases(steps: list[int], tmp_path: Path) -> None:
    few = await steps_after(FEW, f"sqlite:///{tmp_path / 'few'}", steps)
    many = await steps_after(MANY, f"sqlite:///{tmp_path / 'many'}", steps)
    assert all(few.values())
    assert many == few

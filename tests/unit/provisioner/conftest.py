from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from ec2spawner.provisioner import reconciler
from ec2spawner.provisioner.homes import volumes as homes
from ec2spawner.provisioner.instances import claims
from ec2spawner.provisioner.lifecycle import heartbeat as heartbeats
from ec2spawner.provisioner.pool import homes_ahead
from ec2spawner.provisioner.store.databases import sqlite
from ec2spawner.provisioner.store.store import Store
from tests.unit.provisioner.costs import SPOT
from tests.unit.provisioner.world import World, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a person does not see, shortened; nothing is left out."""
    monkeypatch.setattr(reconciler, "PASS_INTERVAL", 0.03)
    monkeypatch.setattr(reconciler, "MIN_WAIT", 0.005)
    monkeypatch.setattr(claims, "LISTING_PAUSE", 0.02)
    monkeypatch.setattr(heartbeats, "CHOICE_PAUSE", 0.05)
    monkeypatch.setattr(homes, "ATTACH_PAUSE", 0.01)
    monkeypatch.setattr(homes, "ATTACH_TIMEOUT", 3.0)
    monkeypatch.setattr(homes_ahead, "DETACH_PAUSE", 0.01)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's file with its schema made: making it is most of what a world costs."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"

    async def make() -> None:
        await (await Store.open(f"sqlite:///{file}", now=datetime.now(UTC))).close()

    asyncio.run(make())
    return file


def unsynced_engine(url: Any, **options: Any) -> Engine:
    """An engine whose commits do not wait for the disk: no test cuts the power."""

    def set_off(connection: Any, *_: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    engine = create_engine(url, **options)
    event.listen(engine, "checkout", set_off)
    return engine


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "create_engine", unsynced_engine)


@pytest.fixture
def one_engine(unsynced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine for all processes of all hubs: each would compile the same statements again."""
    engines: dict[object, Engine] = {}

    def engine_of(url: Any, **options: Any) -> Engine:
        if url not in engines:
            engines[url] = unsynced_engine(url, **options)
        return engines[url]

    monkeypatch.setattr(sqlite, "create_engine", engine_of)


@pytest.fixture
async def world(tmp_path: Path, empty_store: Path) -> AsyncIterator[World]:
    shutil.copy(empty_store, tmp_path / "store.sqlite")
    running = World(tmp_path)
    await running.start()
    yield running
    await running.kill()


@pytest.fixture
async def priced(world: World) -> World:
    """It is noon in November; a T4 costs 0.20 USD/hour on spot and 0.526 on demand."""
    world.cloud.prices = dict(SPOT)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.settle()
    return world


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    yield
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("ec2spawner")]
    assert left == []

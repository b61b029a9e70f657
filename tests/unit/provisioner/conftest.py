from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import AsyncIterator, Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Dialect, Engine, create_engine, event

from ec2spawner.provisioner.store.databases import sqlite
from ec2spawner.provisioner.store.store import Store
from tests.unit.provisioner.costs import SPOT
from tests.unit.provisioner.world import World, until
from tests.virtual_time import add_seed, draw_the_same, seeded_loop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every async test runs in virtual time, but those marked `real_time`."""
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": seeded_loop}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test names its seed."""
    report = yield
    add_seed(item, report)
    return report


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_the_same(monkeypatch)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's file with its schema made: making it is most of what a world costs."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"

    async def make() -> None:
        await (await Store.open(f"sqlite:///{file}", now=datetime.now(UTC))).close()

    with pytest.MonkeyPatch.context() as patch:
        draw_the_same(patch)  # the store's id
        asyncio.run(make())
    return file


def sqlite_dialect() -> Dialect:
    """A dialect that has seen what this SQLite can do."""
    engine = create_engine("sqlite://")
    engine.connect().close()
    return engine.dialect


DIALECT: Final = sqlite_dialect()
"""Of all stores' engines: a compiled statement is used again only by an engine of its dialect."""

COMPILED: Final[dict[Any, Any]] = {}
"""Statements that an engine of this process has compiled: else each test compiles its own."""


def impatient_engine(url: Any, **options: Any) -> Engine:
    """An engine that waits neither for the disk, for no test cuts the power, nor for a lock, whose
    other holder would stand still meanwhile."""

    def set_off(connection: Any, *_: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA busy_timeout = 0")

    engine = create_engine(url, **options)
    engine.dialect = DIALECT
    engine.update_execution_options(compiled_cache=COMPILED)
    event.listen(engine, "checkout", set_off)
    return engine


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "create_engine", impatient_engine)


@pytest.fixture
def one_engine(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine for all processes of all hubs: each would compile the same statements again."""
    engines: dict[object, Engine] = {}

    def engine_of(url: Any, **options: Any) -> Engine:
        if url not in engines:
            engines[url] = impatient_engine(url, **options)
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
def _no_task_is_left(request: pytest.FixtureRequest) -> None:
    """Check async tests alone: for another one it would make a loop."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("_tasks_end")


@pytest.fixture
async def _tasks_end() -> AsyncIterator[None]:
    yield
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("ec2spawner")]
    assert left == []

"""What holds for the store holds on both databases: tests that need one of them override `url`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ec2spawner.provisioner.store.store import Store
from tests.postgresql_server import PostgreSQL
from tests.stored import NOW


@pytest.fixture(scope="session")
def made_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's file with its schema made: to make it is most of what a test would take."""
    file = tmp_path_factory.mktemp("store") / "made.sqlite"
    asyncio.run(make_schema(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def made_postgresql(postgresql: PostgreSQL) -> str:
    """The name of a database with the schema made."""
    url = postgresql.new_database()
    asyncio.run(make_schema(url))
    return url.rpartition("/")[2]


async def make_schema(url: str) -> None:
    await (await Store.open(url, now=NOW)).close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database of each kind; with `store`, of one that has its schema."""
    is_made = "store" in request.fixturenames
    if request.param == "sqlite":
        file = tmp_path / "ec2spawner.sqlite"
        if is_made:
            shutil.copy(request.getfixturevalue("made_sqlite"), file)
        return f"sqlite:///{file}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    if is_made:
        return server.new_database(request.getfixturevalue("made_postgresql"))
    return server.new_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store in that database."""
    opened = await Store.open(url, now=NOW)
    yield opened
    await opened.close()

"""What holds for the store holds on both databases: tests that need one of them override `url`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ec2spawner.provisioner.store.store import Store
from tests.postgresql_server import PostgreSQL
from tests.stored import NOW


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ec2spawner.sqlite'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store in that database."""
    opened = await Store.open(url, now=NOW)
    yield opened
    await opened.close()

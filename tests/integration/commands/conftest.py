"""An admin at work, against one embedded EC2 for all tests of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.harness import Embedded
from tests.integration.commands.admin import Admin


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known_at_once(embedded: Embedded) -> None:
    """What a test creates itself is read back at once."""
    await embedded.control("lag", {"seconds": 0})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Admin:
    return Admin(embedded, tmp_path_factory.mktemp("admin"))

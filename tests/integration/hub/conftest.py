from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Embedded, Hub


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path / "embedded").start()
    yield running
    await running.stop()


@pytest.fixture
async def hub(
    embedded: Embedded, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Hub]:
    """A running hub; options on its command line come from `@pytest.mark.parametrize`."""
    arguments = getattr(request, "param", ())
    running = Hub(tmp_path / "hub", embedded, *arguments)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))
        print("\n".join(embedded.log.read_text(errors="replace").splitlines()[-40:]))

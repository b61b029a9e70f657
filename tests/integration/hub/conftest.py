from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.harness import Embedded, Hub, Notebook


@pytest.fixture
def notebook() -> Notebook:
    """What instances of `embedded` run; a file about JupyterLab has a fixture of its own."""
    return "stub"


@pytest.fixture
def jupyterlab(hub: Hub) -> Iterator[None]:
    """JupyterLab on the instances that boot during one test of a file with a stub."""
    with hub.embedded.jupyterlab():
        yield


@pytest.fixture
async def embedded(tmp_path: Path, notebook: Notebook) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path / "embedded", notebook=notebook).start()
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

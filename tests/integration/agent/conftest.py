"""Fixtures of the agent's integration tests; their pieces are in `lease_on_instance.py`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import (
    Machine,
    StubHub,
    metadata_service,
    reserved_address,
)


@pytest.fixture
async def hub() -> AsyncIterator[StubHub]:
    stub = StubHub()
    await stub.start()
    yield stub
    await stub.close()


@pytest.fixture
def notebook() -> Notebook:
    """What machines run; a file about JupyterLab has a fixture of its own."""
    return "stub"


@pytest.fixture
async def machine(hub: StubHub, notebook: Notebook) -> AsyncIterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="ec2agent-"))
    (root / "devices").mkdir()
    with reserved_address() as (address, port):
        machine = Machine(root=root, hub=hub, address=address, port=port, notebook=notebook)
        metadata = await metadata_service(machine)
        try:
            yield machine
        finally:
            await machine.destroy()
            await metadata.cleanup()
            print(machine.log())
            shutil.rmtree(root, ignore_errors=True)

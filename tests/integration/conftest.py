from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.provisioner.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A hub's provisioner over the simulated EC2, on a real loop."""
    from tests.unit.provisioner.world import REAL_TIME, World

    running = World(tmp_path)
    await running.start(**REAL_TIME)
    yield running
    await running.kill()

"""The phases of one start, from a real hub, agent and notebook to the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ec2spawner.core.starts.phases import Phase
from ec2spawner.core.starts.summary import MeasuredStart
from ec2spawner.provisioner.store.read_only import read_starts
from tests.harness import Embedded, Hub, until


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    """With a boot that listings of EC2 show."""
    running = await Embedded(tmp_path / "embedded", boot_seconds=2.0).start()
    yield running
    await running.stop()


@pytest.mark.nightly(
    guard="tests/unit/core/test_starts.py::test_a_start_on_a_new_instance_has_ten_phases"
)
async def test_a_start_has_ten_phases_that_add_up_to_what_its_user_waited(hub: Hub) -> None:
    url = f"sqlite:///{hub.directory / 'ec2spawner.sqlite'}"
    async with asyncio.timeout(120):
        began = time.monotonic()
        await hub.start_server("ada")
        waited = time.monotonic() - began
        progress = await hub.api.get(f"{hub.server_path('ada')}/progress")
    assert '"ready": true' in progress.text

    async def stored() -> MeasuredStart | None:
        now = datetime.now(UTC)
        span = now - timedelta(hours=1), now + timedelta(hours=1)
        _, slowest = await read_starts(url, *span, slowest=1)
        return slowest[0].start if slowest else None

    start = await until(stored, 20, "the phases in the store")
    seconds = dict(zip(Phase, start.seconds, strict=True))
    # A claim may arrive before a listing has shown the instance as running:
    # then all of it counts as boot.
    pending, boot = seconds.pop(Phase.PENDING) or 0.0, seconds.pop(Phase.BOOT)
    assert None not in (boot, *seconds.values()), start.seconds
    known = [each for each in start.seconds if each is not None]
    assert all(each >= 0 for each in known), start.seconds
    assert sum(known) == pytest.approx(start.total)
    assert start.total <= waited
    assert boot is not None
    assert pending + boot > 1, "EC2's simulated boot takes 2 s"

"""The check of a server that ran when the hub ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.hub.app.restart_check import RestartCheck
from tests.unit.provisioner.world import World

from .test_run_payers import world

pytestmark = pytest.mark.virtual_time

__all__ = ["world"]

SPAWNER: Any = SimpleNamespace(
    user=SimpleNamespace(settings={}),
    server=SimpleNamespace(base_url="/user/ada/"),
    start_timeout=300,
)


async def test_a_server_that_ends_during_its_check_does_not_run(world: World) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await world.restart()
    check = asyncio.create_task(RestartCheck().wait(SPAWNER, world.provisioner, world.now(lease)))
    await world.complete_passes(1)
    assert not check.done(), "its agent may call yet"
    world.cloud.end(agent.instance_id)
    assert await check is None

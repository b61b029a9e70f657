"""No home is detached while it is mounted, and none loses a file, whatever happens to the agents:
killed, frozen, slow."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agents_on_instances import agent_of, make_syncs_slow
from tests.integration.hub.homes_of_users import HomeOf

pytestmark = pytest.mark.slow(seconds=60)

USERS: Final = ("ann", "bob", "cyd")
STARTS: Final = 4
"""For each user: a start, some files, and an end."""

STOP_TIMEOUT: Final = 4.0
SAVE: Final = 2.0
"""Seconds for saving the session. By default each frozen agent is awaited for five minutes."""

CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
]""",
    f"c.EC2Spawner.stop_timeout = {STOP_TIMEOUT}",
    f"c.EC2Spawner.sleep = {{'save': {SAVE}}}",
)


@pytest.fixture
async def hub(embedded: Embedded, tmp_path: Path) -> AsyncIterator[Hub]:
    make_syncs_slow(embedded, "sleep $((RANDOM % 3)).$((RANDOM % 10))")
    config = demo_config(tmp_path / "config", *CONFIG)
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


class Person:
    """Starts servers, writes files, and has bad luck with them."""

    def __init__(self, hub: Hub, name: str, draw: random.Random) -> None:
        self.hub = hub
        self.embedded = hub.embedded
        self.name = name
        self.draw = draw
        self.home = HomeOf(hub.embedded, name)

    async def live(self) -> None:
        for number in range(STARTS):
            await self.hub.start_server(self.name)
            instance_id = await until(self.home.holder, 60, "the home to be attached")
            for part in range(self.draw.randint(1, 3)):
                self.home.write(instance_id, f"{self.name}-{number}-{part}.txt")
            await self.harm(instance_id)
            await self.stop()
            await self.home.until_free()

    async def harm(self, instance_id: str) -> None:
        """Kill the agent, freeze it, freeze it for a moment, or spare it."""
        harm = self.draw.choice(["none", "kill", "freeze", "pause", "interrupt"])
        pid = await agent_of(self.embedded, instance_id)
        assert pid is not None
        if harm == "kill":
            os.kill(pid, signal.SIGKILL)
        elif harm in {"freeze", "pause"}:
            os.kill(pid, signal.SIGSTOP)
        elif harm == "interrupt":
            await self.embedded.control(f"interrupt/{instance_id}", {"notice_seconds": 3})
        if harm == "pause":
            seconds = self.draw.uniform(0.5, 2 * (STOP_TIMEOUT + SAVE))
            asyncio.get_running_loop().call_later(seconds, thaw, pid)

    async def stop(self) -> None:
        """Stop the server, which a notice may have ended or moved."""

        async def has_stopped() -> bool:
            model = await self.hub.model(self.name)
            # Calls that stop servers have a rate.
            if model is not None and model["pending"] != "stop":
                await self.hub.api.delete(self.hub.server_path(self.name))
            return model is None

        await until(has_stopped, 90, f"the server of {self.name} to stop", pause=0.5)


def thaw(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


OTHER_SEEDS = pytest.mark.nightly(
    guard="tests/integration/hub/test_homes_in_chaos.py::"
    "test_a_home_is_never_detached_while_it_is_mounted"
)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=OTHER_SEEDS) for seed in range(1, 10))]
)
async def test_a_home_is_never_detached_while_it_is_mounted(hub: Hub, seed: int) -> None:
    people = [Person(hub, name, random.Random(f"{seed} {name}")) for name in USERS]
    await asyncio.gather(*(person.live() for person in people))
    assert await hub.embedded.control("detached-while-mounted") == []
    for person in people:
        assert person.home.files
        assert person.home.lost() == set()

"""No home is detached while it is mounted, and none loses a file, whatever happens to the agents:
killed, frozen, slow."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from ec2spawner.core.tags import HOME, USER
from tests.harness import Embedded, Hub, demo_config, until

pytestmark = pytest.mark.slow(seconds=60)

USERS: Final = ("ann", "bob", "cyd")
STARTS: Final = 4
"""For each user: a start, some files, and an end."""

STOP_TIMEOUT: Final = 4.0

CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
]""",
    f"c.EC2Spawner.stop_timeout = {STOP_TIMEOUT}",
)

SLOW_SYNC = """#!/bin/bash
sleep $((RANDOM % 3)).$((RANDOM % 10))
exec "${0%/*}/sync-at-once" "$@"
"""


@pytest.fixture
async def hub(embedded: Embedded, tmp_path: Path) -> AsyncIterator[Hub]:
    make_syncs_slow(embedded)
    config = demo_config(tmp_path / "config", *CONFIG)
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


def make_syncs_slow(embedded: Embedded) -> None:
    shims = embedded.data_dir / "ec2" / "shims"
    (shims / "sync").rename(shims / "sync-at-once")
    (shims / "sync").write_text(SLOW_SYNC)
    (shims / "sync").chmod(0o755)


class Person:
    """Starts servers, writes files, and has bad luck with them."""

    def __init__(self, hub: Hub, name: str, draw: random.Random) -> None:
        self.hub = hub
        self.embedded = hub.embedded
        self.name = name
        self.draw = draw
        self.files: set[str] = set()
        """What must be in the home at the end."""

    async def live(self) -> None:
        for number in range(STARTS):
            await self.hub.start_server(self.name)
            instance_id = await self.instance()
            self.write(instance_id, number)
            await self.harm(instance_id)
            await self.stop()
            await self.until_free()

    async def instance(self) -> str:
        """Id of the instance that has the home."""

        async def holder() -> str | None:
            [volume] = await self.volumes()
            return next((each["InstanceId"] for each in volume["Attachments"]), None)

        return await until(holder, 60, f"the home of {self.name} to be attached")

    async def volumes(self) -> list[dict[str, Any]]:
        ec2 = self.embedded.client()
        filters = [
            {"Name": f"tag:{USER}", "Values": [self.name]},
            {"Name": "tag-key", "Values": [HOME]},
        ]
        found: list[dict[str, Any]] = (
            await asyncio.to_thread(ec2.describe_volumes, Filters=filters)
        )["Volumes"]
        return found

    async def until_free(self) -> None:
        async def is_free() -> bool:
            return all(not each["Attachments"] for each in await self.volumes())

        await until(is_free, 90, f"the home of {self.name} to be free")

    def write(self, instance_id: str, number: int) -> None:
        home = self.embedded.data_dir / "ec2/instances" / instance_id / "home/jovyan"
        for part in range(self.draw.randint(1, 3)):
            name = f"{self.name}-{number}-{part}.txt"
            (home / name).write_text(name)
            self.files.add(name)

    async def harm(self, instance_id: str) -> None:
        """Kill the agent, freeze it, freeze it for a moment, or spare it."""
        harm = self.draw.choice(["none", "kill", "freeze", "pause", "interrupt"])
        pid = await self.agent(instance_id)
        if harm == "kill":
            os.kill(pid, signal.SIGKILL)
        elif harm in {"freeze", "pause"}:
            os.kill(pid, signal.SIGSTOP)
        elif harm == "interrupt":
            await self.embedded.control(f"interrupt/{instance_id}", {"notice_seconds": 3})
        if harm == "pause":
            seconds = self.draw.uniform(0.5, 2 * STOP_TIMEOUT)
            asyncio.get_running_loop().call_later(seconds, thaw, pid)

    async def agent(self, instance_id: str) -> int:
        """Process id of its agent, which may have forked its notebook."""
        [found] = [x for x in await self.embedded.instances() if x["instance_id"] == instance_id]
        return min(each["pid"] for each in found["processes"] if is_agent(each["pid"]))

    async def stop(self) -> None:
        """Stop the server, which a notice may have ended or moved."""

        async def has_stopped() -> bool:
            reply = await self.hub.api.delete(self.hub.server_path(self.name))
            model = await self.hub.model(self.name)
            return reply.status_code in {202, 204, 404} and model is None

        await until(has_stopped, 90, f"the server of {self.name} to stop", pause=0.5)

    def lost(self) -> set[str]:
        volumes = self.embedded.data_dir / "ec2" / "volumes"
        found = {file.name for file in volumes.glob("*/*.txt")}
        return {name for name in self.files if name not in found}


def is_agent(pid: int) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(arguments) > 1 and arguments[1].endswith(b"/ec2spawner-agent")


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
        assert person.files
        assert person.lost() == set()

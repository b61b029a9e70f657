"""How many launch calls a cluster takes: agents do nothing, and the server's is by hand."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from tests.bench.bench_hub import START_TIMEOUT
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import server_by_hand, silence_agents

LAUNCHES = ("CreateFleet", "RunInstances")

JOIN = {
    "engine": "ray",
    "address": "127.0.0.1:6379",
    "token": "t" * 32,
    "python": sys.executable,
    "python_version": platform.python_version(),
    "engine_version": "2.52.0",
}
"""Nobody joins."""


async def launch_calls(directory: Path, workers: int) -> int:
    """Of EC2, from the request of so many workers until all have an instance."""
    embedded = await Embedded(directory / "ec2").start()
    silence_agents(embedded)
    lines = (
        f"c.EC2Spawner.clusters = {{'max_workers': {workers}}}",
        "c.EC2Spawner.stop_timeout = 1",
    )
    hub = Hub(directory / "hub", embedded, config=demo_config(directory / "config", *lines))
    try:
        await hub.start()
        async with server_by_hand(hub, "ann", options={"profile": "cpu"}) as agent:
            before = await _launches(embedded)
            body = {"action": "start", "workers": workers, "join": JOIN}
            reply = await agent.say("cluster", body)
            assert reply.is_success, reply.text

            async def all_run() -> bool:
                return len(await embedded.instances()) == 1 + workers

            await until(all_run, START_TIMEOUT, f"{workers} instances")
            return len(await _launches(embedded)) - len(before)
    finally:
        await hub.stop()
        await embedded.stop()


async def _launches(embedded: Embedded) -> list[Any]:
    return [each for action in LAUNCHES for each in await embedded.calls(action)]

"""What is left of the workers of a server that has ended, in whichever way.

The hubs and servers of the bench `kill`: a worker runs as long as its agent lets it, and the
documented waits are short.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from tests.bench.kill.killable_hub import KillableHub
from tests.bench.kill.legs import ANN, JOIN
from tests.bench.kill.life import PASSES, SETTLED_WITHIN, Life
from tests.harness import Embedded, until
from tests.nursery import Nursery

WORKERS = 3


async def stopped(life: Life) -> None:
    """Its user stops it."""
    await life.hub.stop_server(ANN)


async def killed(life: Life) -> None:
    """Its instance ends in the AWS console."""
    instance_id = life.instance_of(ANN)
    await life.account.run(lambda ec2: ec2.terminate_instances(InstanceIds=[instance_id]))


async def killed_without_a_hub(life: Life) -> None:
    """The same while no hub runs."""
    await life.hub.kill()
    await killed(life)
    await life.hub.start()


async def interrupted(life: Life) -> None:
    """EC2 reclaims its instance; the server continues on another one, without the workers."""
    await life.interrupt(life.instance_of(ANN))


async def idle(_: Life) -> None:
    """Nothing is done: its profile allows seconds without work."""


ENDS: dict[str, tuple[str, Callable[[Life], Awaitable[None]]]] = {
    "stopped": ("plain", stopped),
    "killed": ("plain", killed),
    "hub killed, and restarted": ("plain", killed_without_a_hub),
    "interrupted": ("plain", interrupted),
    "idle": ("brief", idle),
}
"""The profile of the server, and what happens to it."""


async def leaked_by_end(directory: Path, console: Console) -> dict[str, int]:
    """Instances that run two passes after a server with workers has ended, by how it ended."""
    found = {}
    embedded = Embedded(directory / "ec2", boot_seconds=0)
    async with AsyncExitStack() as running:
        running.push_async_callback(embedded.stop)
        await embedded.start()
        nursery = Nursery("jupyterhub", directory / "nursery.log")
        running.callback(nursery.stop)
        hub = KillableHub("clusters", directory / "hub", embedded, nursery)
        running.push_async_callback(hub.stop)
        await hub.begin(ANN)
        life = Life(hub)
        for name, (profile, happens) in ENDS.items():
            found[name] = await _leaked(life, profile, happens)
            console.print(f"{name}: {found[name]} instances left", style="dim")
    return found


async def _leaked(life: Life, profile: str, happens: Callable[[Life], Awaitable[None]]) -> int:
    await life.ensure_gone(ANN)
    await life.ensure_ready(ANN, profile)
    server = life.lease_of(ANN)
    await life.ask_cluster(ANN, action="start", workers=WORKERS, profile="plain", join=JOIN)
    if profile == "plain":
        await life.wait_workers(ANN, WORKERS)
    await happens(life)

    async def has_ended() -> bool:
        return any(x.lease_id == server.lease_id and x.state == "ended" for x in life.hub.leases())

    await until(has_ended, SETTLED_WITHIN, "the server to end")
    passes = life.hub.passes + PASSES

    async def are_over() -> bool:
        """The passes, and the stops that they began."""
        is_stopping = any(x.state == "ending" for x in life.hub.leases())
        return life.hub.passes >= passes and not is_stopping

    await until(are_over, SETTLED_WITHIN, "two passes")
    servers = {x.instance_id for x in life.hub.leases() if x.state != "ended" and not x.head}
    return len(await life.account.alive() - servers)

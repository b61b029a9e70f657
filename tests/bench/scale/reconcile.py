"""A pass of the provisioner with thousands of running servers: its CPU time, in this process.

The provisioner is the hub's, with its store's file; EC2 is simulated in memory, so a pass does what
it does in a hub, without JupyterHub's load beside it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, median
from tests.unit.provisioner.world import World

SERVERS = 2000

PASSES = 15

QUIET_SECONDS = 86400.0
"""Interval of everything that a hub does by the clock: nothing but what is measured happens."""


async def reconcile(directory: Path, servers: int, console: Console) -> dict[str, Figure]:
    """CPU of a steady pass, and of one that has a fresh listing to take in first."""
    directory.mkdir(parents=True, exist_ok=True)
    world = World(directory)
    began = time.monotonic()
    await world.start()
    await world.many_ready(servers)
    await world.complete_passes(1)
    await world.kill()
    console.print(f"{servers} servers, {time.monotonic() - began:.0f} s", style="dim")
    await world.start(quiet_interval=QUIET_SECONDS, price_interval=QUIET_SECONDS)
    await world.settle()
    reconciler = world.provisioner._reconciler
    instances = world.provisioner._state.instances

    async def one_pass() -> None:
        world.clock.advance(1)
        await reconciler.reconcile()

    async def listed_pass() -> None:
        world.clock.advance(1)
        instances.replace(listed)
        await reconciler.reconcile()

    await one_pass()  # what a hub's start leaves to its first pass
    steady = [await _cpu_ms(one_pass) for _ in range(PASSES)]
    fresh = []
    for _ in range(PASSES):
        listed = await world.cloud.list_instances(world.settings.hub)
        fresh.append(await _cpu_ms(listed_pass))
    await world.kill()
    table = Table(f"a pass with {servers} servers", "median CPU ms", "max CPU ms")
    for name, values in (("steady", steady), ("with a fresh listing", fresh)):
        table.add_row(name, f"{median(values):.1f}", f"{max(values):.1f}")
    console.print(table)
    return {
        "reconcile_2000_ms": median(steady),
        "reconcile_2000_max_ms": max(steady),
        "reconcile_2000_listed_ms": median(fresh),
    }


async def _cpu_ms(work: Callable[[], Awaitable[None]]) -> float:
    """CPU of the whole process meanwhile, its store's thread included."""
    began = time.process_time()
    await work()
    return 1000 * (time.process_time() - began)

"""A pass of the provisioner with thousands of running servers: its CPU time, in this process.

The provisioner is the hub's, with its store's file; EC2 is simulated in memory, so a pass does what
it does in a hub, without JupyterHub's load beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ec2spawner.provisioner.reconciler import PASS_INTERVAL
from tests.bench.figures import Figure, median
from tests.unit.provisioner.world import REAL_TIME, Agent, World

SERVERS = 2000

PASSES = 15

AGE_SECONDS = 300.0
"""Of the servers when passes are measured: those of younger ones also count their first minute."""

YOUNG_PASSES = 5

SHOWN = 8
"""Controllers that the table names."""

WAVE = 100
"""Servers that are started at once, before anything is measured."""

LISTING_SECONDS = 0.1

QUIET_SECONDS = 86400.0
"""Interval of everything that a hub does by the clock: nothing but what is measured happens."""


async def reconcile(directory: Path, servers: int, console: Console) -> dict[str, Figure]:
    """CPU of a steady pass, and of one that has a fresh listing to take in first."""
    directory.mkdir(parents=True, exist_ok=True)
    world = World(directory)
    began = time.monotonic()
    listing = {"busy_interval": LISTING_SECONDS, "quiet_interval": LISTING_SECONDS}
    await world.start(**{**REAL_TIME, **listing})
    for first in range(0, servers, WAVE):
        await _start(world, range(first, min(first + WAVE, servers)))
    # Not `complete_passes`: a hub with as many servers lists them all every five minutes only.
    reconciler = world.provisioner._reconciler
    await reconciler.reconcile()
    await world.settle()
    console.print(f"{servers} servers, {time.monotonic() - began:.0f} s", style="dim")
    state = world.provisioner._state
    state.settings = replace(
        state.settings,
        agent_silent_after=QUIET_SECONDS,
        quiet_interval=QUIET_SECONDS,
        price_interval=QUIET_SECONDS,
    )
    await reconciler.reconcile()
    await world.settle()

    async def one_pass() -> None:
        world.clock.advance(PASS_INTERVAL)
        await reconciler.reconcile()

    async def listed_pass() -> None:
        world.clock.advance(PASS_INTERVAL)
        state.instances.replace(listed)
        await reconciler.reconcile()

    young = [await _cpu_ms(one_pass) for _ in range(YOUNG_PASSES)]
    world.clock.advance(AGE_SECONDS)
    await one_pass()  # what the time since the last one leaves to it
    steady = [await _cpu_ms(one_pass) for _ in range(PASSES)]
    fresh = []
    for _ in range(PASSES):
        listed = await world.cloud.list_instances(world.settings.hub)
        fresh.append(await _cpu_ms(listed_pass))
    by_controller = await _cpu_by_controller(world)
    await world.kill()
    table = Table(f"a pass with {servers} servers", "median CPU ms", "max CPU ms")
    rows = {"steady": steady, "with a fresh listing": fresh, "in their first minute": young}
    for name, values in rows.items():
        table.add_row(name, f"{median(values):.1f}", f"{max(values):.1f}")
    console.print(table)
    table = Table("controller of a steady pass", "CPU ms")
    for name, milliseconds in by_controller.most_common(SHOWN):
        table.add_row(name, f"{milliseconds:.1f}")
    console.print(table)
    return {
        "reconcile_2000_ms": median(steady),
        "reconcile_2000_max_ms": max(steady),
        "reconcile_2000_listed_ms": median(fresh),
        "reconcile_2000_young_ms": median(young),
    }


async def _start(world: World, numbers: range) -> None:
    before = set(world.cloud.running())
    for number in numbers:
        await world.request(f"user-{number}")
    booted = await world.boot(len(before) + len(numbers))
    await asyncio.gather(*(Agent(world, each).serve() for each in booted if each not in before))


async def _cpu_by_controller(world: World) -> Counter[str]:
    """Milliseconds of CPU, a mean of `PASSES` passes."""
    found: Counter[str] = Counter()
    for _ in range(PASSES):
        world.clock.advance(PASS_INTERVAL)
        now = world.clock()
        for controller in world.provisioner._reconciler.controllers:
            began = time.process_time()
            await controller.reconcile(now)
            name = type(controller).__name__
            found[name] += 1000 * (time.process_time() - began) / PASSES  # type: ignore[assignment]
    return found


async def _cpu_ms(work: Callable[[], Awaitable[None]]) -> float:
    """CPU of the whole process meanwhile, its store's thread included."""
    began = time.process_time()
    await work()
    return 1000 * (time.process_time() - began)

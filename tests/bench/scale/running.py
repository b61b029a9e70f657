"""A thousand running servers: EC2 calls, CPU, memory and stalls of the hub, and its restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure
from tests.bench.scale.restart import Restart, restart_hub, show_restart
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.rig.hub_process import Window, turn_percentile
from tests.bench.scale.rig.observation import Observation, Observer
from tests.bench.scale.starts import show_stalls

SERVERS = 1000

WAVE = 100
"""Starts at once while servers are started. What that takes is not measured here."""

BOOT_SECONDS = 1.0

SETTLE = 20.0
"""Seconds after the last start: listings become rare, and what follows starts is done."""

POLL_SECONDS = 30
"""JupyterHub's interval of polls, and of the naive spawner's calls."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of the windows."""

    idle: float
    running: float
    twice: float
    """With twice as many servers; 0 leaves them out."""


FULL = Lengths(idle=60, running=600, twice=300)
"""2,000 servers are listed completely every 300 seconds, in 40 calls: a shorter window has all of
these or none."""
SHORT = Lengths(idle=20, running=150, twice=0)
"""A complete listing is made every 150 seconds with as many servers."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A window in which nobody starts or stops a server."""

    servers: int
    window: Window
    seen: Observation
    memory_kb: float
    open_files: int


async def running(
    directory: Path, servers: int, lengths: Lengths, console: Console
) -> dict[str, Figure]:
    """An idle hub, `servers` servers, a restart of the hub, and twice as many."""
    async with CannedSite(directory, BOOT_SECONDS) as site:
        users = [f"user-{number:04}" for number in range(2 * servers)]
        first, more = users[:servers], users[servers:]
        await site.add_users(first)
        await asyncio.sleep(SETTLE)
        idle = await watch(site, 0, lengths.idle)
        await start_in_waves(site, first, console)
        await asyncio.sleep(SETTLE)
        once = await watch(site, servers, lengths.running)
        restart = await restart_hub(site, first, console)
        steady = [idle, once]
        if lengths.twice and restart.serving_s is not None:
            await site.add_users(more)
            await start_in_waves(site, more, console)
            await asyncio.sleep(SETTLE)
            steady.append(await watch(site, 2 * servers, lengths.twice))
        assert not site.agents.failures, site.agents.failures[:3]
    show(steady, restart, console)
    return _figures(steady, restart)


async def start_in_waves(site: CannedSite, users: Sequence[str], console: Console) -> None:
    """Start the servers of all these users."""
    began = time.monotonic()
    for first in range(0, len(users), WAVE):
        await asyncio.gather(*(site.start(user) for user in users[first : first + WAVE]))
        done, seconds = first + WAVE, time.monotonic() - began
        console.print(f"{done:5}/{len(users)} servers started, {seconds:.0f} s", style="dim")


async def watch(site: CannedSite, servers: int, seconds: float) -> Steady:
    """Leave the hub alone for this long, and measure it."""
    memory = await site.process.memory_kb()
    observer = await Observer.begin(site)
    site.process.mark()
    await asyncio.sleep(seconds)
    window = site.process.window()
    return Steady(servers, window, await observer.end(), memory, site.process.open_files)


def _figures(steady: Sequence[Steady], restart: Restart) -> dict[str, Figure]:
    idle, once = steady[:2]
    twice = steady[2] if len(steady) > 2 else None
    kb = (once.memory_kb - idle.memory_kb) / once.servers
    return {
        "running_servers": once.servers,
        "calls_per_min_1000": once.seen.calls_per_minute,
        "calls_per_min_2000": twice.seen.calls_per_minute if twice else None,
        "stall_p99_ms_1000": turn_percentile(once.seen.turns, once.window, 99),
        "stall_max_ms_1000": once.seen.stall_max_ms,
        "stall_less_queue_max_ms_1000": once.seen.own_stall_max_ms,
        "hub_cpu_percent_1000": once.window.cpu_percent - idle.window.cpu_percent,
        "hub_cpu_percent_2000": (
            twice.window.cpu_percent - idle.window.cpu_percent if twice else None
        ),
        "memory_per_server_kb": kb,
        **restart.figures,
        "baseline_calls_per_min_1000": once.servers * 60 / POLL_SECONDS,
        "baseline_hub_cpu_percent": idle.window.cpu_percent,
        "baseline_stall_max_ms": idle.seen.stall_max_ms,
    }


def show(steady: Sequence[Steady], restart: Restart, console: Console) -> None:
    """Tables of all windows, and of the restart."""
    table = Table("", *(f"{each.servers} servers" for each in steady))
    rows = {
        "seconds": lambda each: f"{each.window.seconds:.0f}",
        "hub CPU, % of a core": lambda each: f"{each.window.cpu_percent:.1f}",
        "memory (USS), MB": lambda each: f"{each.memory_kb / 1000:.1f}",
        "open files of the hub": lambda each: str(each.open_files),
        "turns > 1 ms, p99 ms": lambda each: (
            f"{turn_percentile(each.seen.turns, each.window, 99):.1f}"
        ),
        "worst turn, ms": lambda each: f"{each.seen.stall_max_ms:.0f}",
        "the same less queued, ms": lambda each: f"{each.seen.own_stall_max_ms:.0f}",
        "EC2 calls a minute": lambda each: f"{each.seen.calls_per_minute:.1f}",
    }
    for name, value in rows.items():
        table.add_row(name, *map(value, steady))
    for action in sorted(set().union(*(each.seen.calls for each in steady))):
        table.add_row(action, *(str(each.seen.calls[action]) for each in steady))
    console.print(table)
    for each in steady[1:]:
        show_stalls(f"{each.servers} servers", each.seen.turns, console)
    show_restart(restart, console)

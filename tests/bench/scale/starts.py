"""Starts at once: how long they take, what they cost in calls of EC2, and the hub's health."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ec2spawner.embedded.api.protocol import EC2Error
from ec2spawner.embedded.gateway.throttle import Throttle
from tests.bench.figures import Figure, median, p95
from tests.bench.loop_monitor import Turn
from tests.bench.scale.rig.boot_times import BootTimes
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.rig.hub_process import Window
from tests.bench.scale.rig.site import Site, by_action
from tests.bench.start_story import STEPS, read_milestones, seconds_between

AFTER_READY = 2.0
"""Seconds after the last server is ready in which calls still belong to the starts."""

BACKGROUND = frozenset(
    {
        "DescribeCapacityReservations",
        "DescribeInstanceStatus",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeReservedInstances",
        "DescribeSpotPriceHistory",
        "GetProducts",
        "ListServiceQuotas",
    }
)
"""Actions that the hub repeats by the clock, whether anybody starts a server or not."""

LAUNCHES = frozenset({"CreateFleet", "RunInstances"})

THROTTLES = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException"})

BOOT_SECONDS = 3.0
"""Of the instances of `starts60`."""

SETTLE = 5.0
"""Seconds for a hub that has just started to read prices and types."""

WORST = 6
"""Stalls that the table names."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Starts that were asked for at the same moment."""

    clicked: float
    """Seconds since the epoch."""
    seconds: Sequence[float]
    calls: Counter[str]
    """Of EC2, by action, without `BACKGROUND`."""
    throttled: Counter[str]
    health_ms: Sequence[float]
    booted_seconds: Sequence[float]
    """From the click until an instance had booted: EC2's part, and the simulation's."""
    turns: Sequence[Turn]
    """The hub loop's longer turns, longest first."""
    window: Window

    @property
    def calls_per_start(self) -> float:
        return self.calls.total() / len(self.seconds)

    @property
    def launch_calls(self) -> int:
        return sum(self.calls[action] for action in LAUNCHES)


async def start_at_once(site: Site, users: Sequence[str]) -> Wave:
    """Start all of these users' servers at once, and measure until they are ready."""
    before = len(await site.calls())
    probe = await site.start_probe()
    site.process.mark()
    clicked = time.time()
    seconds = await asyncio.gather(*(site.start(user) for user in users))
    window = site.process.window()
    booted = [at - clicked for at in site.agents.booted_at if at >= clicked]
    health = await site.stop_probe(probe)
    await asyncio.sleep(AFTER_READY)
    calls = await site.calls(before)
    missing = set(users) - await site.ready_servers()
    assert not missing, f"not ready: {sorted(missing)}"
    return Wave(
        clicked,
        seconds,
        by_action(call for call in calls if call["action"] not in BACKGROUND),
        by_action(call for call in calls if call["outcome"] in THROTTLES),
        health,
        booted,
        site.hub.turns(window.began, window.ended),
        window,
    )


async def starts_100(
    directory: Path, count: int, boots: BootTimes, console: Console
) -> dict[str, Figure]:
    """`count` starts at once within AWS's token buckets, of new users and of the same again."""
    async with Site(directory, boots) as site:
        await site.embedded.control("limits", {"token_buckets": True})
        users = [f"student-{number:03}" for number in range(count)]
        await site.add_users(users)
        await site.add_tokens(users)
        await asyncio.sleep(SETTLE)
        new = await start_at_once(site, users)
        await site.stop(users)
        returning = await start_at_once(site, users)
        show_waves({"new users": new, "returning users": returning}, console)
        await site.stop(users)
        failures = site.agents.failures
    assert not failures, failures[:3]
    return {
        "starts_100_launch_calls": max(new.launch_calls, returning.launch_calls),
        "starts_100_throttles": new.throttled.total() + returning.throttled.total(),
        "calls_per_start": returning.calls_per_start,
        "calls_per_new_start": new.calls_per_start,
        "starts_100_p95_s": p95(returning.seconds),
        "starts_100_new_p95_s": p95(new.seconds),
        "baseline_starts_100_launch_calls": count,
        "baseline_starts_100_token_seconds": run_instances_seconds(count),
    }


def run_instances_seconds(count: int) -> float:
    """Seconds until the embedded EC2's bucket has let so many RunInstances through, one each.

    With its own buckets on a clock that stands still between calls: each call is made as soon as
    there is a token.
    """
    now = 1.0
    throttle = Throttle(lambda: now)
    for _ in range(count):
        while True:
            try:
                throttle.take("RunInstances", {"MaxCount": 1})
            except EC2Error:
                now += 0.01
            else:
                break
    return now - 1.0


async def starts_60(directory: Path, count: int, console: Console) -> dict[str, Figure]:
    """`count` starts at once of instances that boot in `BOOT_SECONDS`, on the embedded EC2, and on
    the canned one, which needs next to nothing of the cores that the hub runs on."""
    wave = await _wave_of_60(Site(directory / "embedded", BOOT_SECONDS), count, console)
    canned = await _wave_of_60(CannedSite(directory / "canned", BOOT_SECONDS), count, console)
    return {
        "starts_60_p95_s": p95(wave.seconds),
        "starts_60_median_s": median(wave.seconds),
        "starts_60_booted_p95_s": p95(wave.booted_seconds),
        "starts_60_cpu_s": wave.window.cpu_seconds,
        "health_p95_ms": p95(wave.health_ms),
        "health_max_ms": max(wave.health_ms),
        "stall_max_ms_60": wave.turns[0].wall_ms if wave.turns else None,
        "starts_60_canned_p95_s": p95(canned.seconds),
        "starts_60_canned_booted_p95_s": p95(canned.booted_seconds),
        "health_canned_p95_ms": p95(canned.health_ms),
        "health_canned_max_ms": max(canned.health_ms),
    }


async def _wave_of_60(site: Site, count: int, console: Console) -> Wave:
    async with site:
        users = [f"student-{number:03}" for number in range(count)]
        await site.add_users(users)
        await site.add_tokens(users)
        await asyncio.sleep(SETTLE)
        wave = await start_at_once(site, users)
        show_waves({type(site).__name__: wave}, console)
        failures = site.agents.failures
        await site.hub.stop()
        show_steps(site.hub.directory / "ec2spawner.sqlite", wave, console)
    assert not failures, failures[:3]
    return wave


# --- for people ---------------------------------------------------------------------------------


def show_waves(waves: dict[str, Wave], console: Console) -> None:
    """Tables of times, of calls by action, and of the loop's worst stalls."""
    table = Table(
        "starts at once",
        "starts",
        "first s",
        "median s",
        "p95 s",
        "last s",
        "hub CPU s",
        "booted p95 s",
    )
    for name, wave in waves.items():
        times = (min(wave.seconds), median(wave.seconds), p95(wave.seconds), max(wave.seconds))
        figures = (*times, wave.window.cpu_seconds, p95(wave.booted_seconds))
        table.add_row(name, str(len(wave.seconds)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    table = Table("EC2 calls of the starts", *waves)
    for action in sorted(set().union(*(wave.calls for wave in waves.values()))):
        table.add_row(action, *(str(wave.calls[action]) for wave in waves.values()))
    table.add_row("per start", *(f"{wave.calls_per_start:.2f}" for wave in waves.values()))
    table.add_row("throttled", *(str(dict(wave.throttled)) for wave in waves.values()))
    console.print(table)
    for name, wave in waves.items():
        show_stalls(name, wave.turns, console)


def show_steps(store: Path, wave: Wave, console: Console) -> None:
    """Where the time of a start went. The hub has ended."""
    found = read_milestones(store).values()
    table = Table("where a start goes", "median s", "p95 s")
    steps = [
        seconds_between(
            wave.clicked,
            (each.requested, each.launched, each.assigned, each.notebook, each.ready),
            wave.window.ended,
        )
        for each in found
    ]
    for name, seconds in zip(STEPS, zip(*steps, strict=True), strict=True):
        table.add_row(name, f"{median(seconds):.2f}", f"{p95(seconds):.2f}")
    console.print(table)


def show_stalls(name: str, turns: Sequence[Turn], console: Console) -> None:
    """The longest turns, and at which lines the loop was most of the time of all long turns."""
    table = Table(f"worst stalls, {name}", "wall ms", "CPU ms", "queued ms", "GC ms")
    for turn in turns[:WORST]:
        figures = (turn.wall_ms, turn.cpu_ms, turn.queued_ms, turn.gc_ms)
        table.add_row(turn.place or "(not seen)", *(f"{figure:.0f}" for figure in figures))
    console.print(table)
    busy: Counter[str] = Counter()
    for turn in turns:
        busy[turn.place or "(shorter turns)"] += round(turn.wall_ms)
    table = Table(f"where the loop was, {name}", "ms")
    for place, milliseconds in busy.most_common(2 * WORST):
        table.add_row(place, str(milliseconds))
    console.print(table)

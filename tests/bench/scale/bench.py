"""`scale`: what a hub does for hundreds of users at once, part by part."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.bench.figures import Figure, Goal, Result, median
from tests.bench.machine import describe_machine
from tests.bench.scale import logins, one_account, reconcile, running, starts, warm_pool
from tests.bench.scale.rig.boot_times import BootTimes

COMMITS = 50

GOALS = {
    "starts_100_launch_calls": Goal(3),
    "starts_100_throttles": Goal(0),
    "calls_per_start": Goal(3),
    "starts_60_p95_s": Goal(10),
    "health_p95_ms": Goal(100, inclusive=False),
    "health_max_ms": Goal(500, inclusive=False),
    "warm20_p95_s": Goal(2, inclusive=False),
    "warm1_median_s": Goal(0.8, inclusive=False),
    "login_storm_errors": Goal(0),
    "login_storm_p95_s": Goal(2, inclusive=False),
    "calls_per_min_1000": Goal(12),
    "calls_per_min_2000": Goal(12),
    "stall_p99_ms_1000": Goal(20, inclusive=False),
    "stall_max_ms_1000": Goal(50, inclusive=False),
    "hub_cpu_percent_1000": Goal(15, inclusive=False),
    "memory_per_server_kb": Goal(100, inclusive=False),
    "restart_1000_serving_s": Goal(15, inclusive=False),
    "restart_1000_s": Goal(30, inclusive=False),
    "restart_1000_lost": Goal(0),
    "reconcile_2000_ms": Goal(100, inclusive=False),
    "account_health_added_p95_ms": Goal(50, inclusive=False),
    "account_memory_added_mib": Goal(150, inclusive=False),
    "account_store_mib": Goal(1200),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One scene; `only` of the command line selects it by its name."""

    name: str
    run: Callable[[Path, bool, int | None, Console], Coroutine[Any, Any, Mapping[str, Figure]]]
    """Given a directory, whether to be short, `--starts`, and where to show tables."""


async def _starts_100(
    directory: Path, short: bool, count: int | None, console: Console
) -> Mapping[str, Figure]:
    boots = BootTimes(0.25 if short else 1.0)
    return await starts.starts_100(directory, count or 100, boots, console)


async def _starts_60(
    directory: Path, _short: bool, count: int | None, console: Console
) -> Mapping[str, Figure]:
    return await starts.starts_60(directory, count or 60, console)


async def _running(
    directory: Path, short: bool, count: int | None, console: Console
) -> Mapping[str, Figure]:
    lengths = running.SHORT if short else running.FULL
    return await running.running(directory, count or running.SERVERS, lengths, console)


async def _warm_pool(
    directory: Path, _short: bool, _count: int | None, console: Console
) -> Mapping[str, Figure]:
    return await warm_pool.warm_pool(directory, console)


async def _login_storm(
    directory: Path, _short: bool, _count: int | None, console: Console
) -> Mapping[str, Figure]:
    return await logins.login_storm(directory, console)


async def _one_account(
    directory: Path, short: bool, _count: int | None, console: Console
) -> Mapping[str, Figure]:
    seconds = one_account.SHORT_SECONDS if short else one_account.FULL_SECONDS
    return await one_account.one_account(directory, seconds, console)


async def _reconcile(
    directory: Path, _short: bool, count: int | None, console: Console
) -> Mapping[str, Figure]:
    return await reconcile.reconcile(directory, count or reconcile.SERVERS, console)


PARTS = (
    Part("reconcile", _reconcile),
    Part("starts60", _starts_60),
    Part("starts100", _starts_100),
    Part("warm", _warm_pool),
    Part("logins", _login_storm),
    Part("account", _one_account),
    Part("running", _running),
)


def run(count: int | None, short: bool, console: Console, only: str = "") -> Result:
    """Run the parts whose names contain `only`. Raises `StartFailedError`."""
    machine = describe_machine() | {"commit_ms": _commit_ms()}
    figures: dict[str, Figure] = {}
    for part in PARTS:
        if only in part.name:
            began = time.monotonic()
            console.print(f"[bold]{part.name}[/bold]")
            with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as directory:
                figures |= asyncio.run(part.run(Path(directory), short, count, console))
            console.print(f"{part.name}: {time.monotonic() - began:.0f} s", style="dim")
    goals = GOALS if not only else {name: GOALS[name] for name in GOALS if name in figures}
    return Result("scale", figures, goals, machine)


def _commit_ms() -> float:
    """Milliseconds of one commit to a SQLite file where the hubs of this bench have theirs.

    JupyterHub commits on its event loop, ten times and more for each start. A file system in memory
    (`TMPDIR=/dev/shm`) shows what is left without the disk.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(sqlite3.connect(Path(directory) / "probe.sqlite")) as database,
    ):
        database.execute("CREATE TABLE probe (number INTEGER)")
        took = []
        for number in range(COMMITS):
            began = time.perf_counter()
            database.execute("INSERT INTO probe VALUES (?)", (number,))
            database.commit()
            took.append(1000 * (time.perf_counter() - began))
    return round(median(took), 2)

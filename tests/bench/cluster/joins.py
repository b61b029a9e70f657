"""How long real Ray workers take to join, beside nodes of Ray without a hub."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console

from ec2spawner.cluster_worker.ray_node import STARTED
from tests.bench.bench_hub import START_TIMEOUT
from tests.harness import Embedded, Hub, demo_config, end, free_ports, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed

WORKERS = 3
"""Of each cluster."""

HEAD_HOST, NODE_HOSTS = "127.93.0.1", tuple(f"127.93.1.{n}" for n in range(1, WORKERS + 1))
"""Of the nodes without a hub: each has an address of its own, as instances of the embedded EC2."""

TRIES = 3

JOIN_TIMEOUT = 60.0
"""Seconds for the workers of a cluster."""

OPTIONS = (
    f"c.EC2Spawner.clusters = {{'max_workers': {WORKERS}}}",
    "c.EC2Spawner.stop_timeout = '20s'",
)

BEGIN = f"import ec2spawner; cluster = ec2spawner.cluster({WORKERS}, 'cpu', min=0)"

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@dataclass(slots=True)
class Joins:
    """Seconds, each of one worker."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)


async def measure_joins(directory: Path, repetitions: int, console: Console) -> Joins:
    """A cluster and plain nodes, in turn."""
    found = Joins()
    embedded = Embedded(directory / "ec2", notebook="jupyterlab")
    config = demo_config(directory / "config", *OPTIONS)
    async with AsyncExitStack() as running:
        running.push_async_callback(embedded.stop)
        await embedded.start()
        hub = Hub(directory / "hub", embedded, config=config)
        running.push_async_callback(hub.stop)
        await hub.start()
        await hub.start_server("ann", options={"profile": "cpu"})
        kernel = await running.enter_async_context(kernel_of(hub, "ann"))
        for number in range(repetitions):
            ours = await one_cluster(hub, kernel)
            plain = await plain_nodes()
            found.ours += ours
            found.plain += plain
            console.print(
                f"{number + 1:3}/{repetitions} ours {_listed(ours)}, plain {_listed(plain)}",
                f"\n    the slowest of ours: {_story(hub)}",
                style="dim",
            )
        await hub.stop_server("ann")
    return found


@asynccontextmanager
async def kernel_of(hub: Hub, user: str) -> AsyncIterator[Kernel]:
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as notebook:
        body = {"type": "notebook", "format": "json", "content": EMPTY}
        status, answer = await notebook.call("PUT", "api/contents/work.ipynb", json=body)
        assert status == 201, answer
        yield Kernel(notebook, await notebook.start_notebook("work.ipynb"))


async def one_cluster(hub: Hub, kernel: Kernel) -> list[float]:
    """Start a cluster from the notebook, stop it, and wait until nothing of it runs."""
    before = set(_requested_and_ready(hub))
    said = printed(await kernel.run(BEGIN))

    async def joined() -> dict[str, float] | None:
        found = {x: y for x, y in _requested_and_ready(hub).items() if x not in before}
        return found if len(found) == WORKERS else None

    times = await until(joined, JOIN_TIMEOUT, f"{WORKERS} workers to join: {said}")
    await kernel.run("cluster.stop()")

    async def one_instance() -> bool:
        return len(await hub.embedded.instances()) == 1

    await until(one_instance, START_TIMEOUT, "the workers to be gone")
    return list(times.values())


def _requested_and_ready(hub: Hub) -> dict[str, float]:
    """Seconds from the request of each worker that has joined, by its lease."""
    path = hub.directory / "ec2spawner.sqlite"
    query = "SELECT lease_id, requested_at, ready_at FROM lease WHERE head != '' AND ready_at"
    with contextlib.closing(sqlite3.connect(path, timeout=5)) as connection:
        rows = connection.execute(query).fetchall()
    return {
        lease_id: (_instant(ready) - _instant(requested)).total_seconds()
        for lease_id, requested, ready in rows
    }


def _story(hub: Hub) -> str:
    """When the last worker that has joined reached each step, in seconds from its request."""
    path = hub.directory / "ec2spawner.sqlite"
    query = (
        "SELECT requested_at, step, at FROM lease_event JOIN lease USING (lease_id) "
        "WHERE head != '' AND ready_at = (SELECT max(ready_at) FROM lease WHERE head != '') "
        "ORDER BY position"
    )
    with contextlib.closing(sqlite3.connect(path, timeout=5)) as connection:
        rows = connection.execute(query).fetchall()
    return ", ".join(
        f"{step} {(_instant(at) - _instant(requested)).total_seconds():.2f}"
        for requested, step, at in rows
    )


def _instant(stored: str) -> datetime:
    return datetime.fromisoformat(stored)


def _listed(seconds: Sequence[float]) -> str:
    return " ".join(f"{each:.2f}" for each in seconds) + " s"


# --- Ray alone ----------------------------------------------------------------------------------


async def plain_nodes() -> list[float]:
    """Start a head, and then as many nodes at once as a cluster has workers. Tried again where Ray
    gives up, which it does after 30 s: others may keep the machine busy."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(AssertionError, TimeoutError):
            return await _plain_nodes()
    return await _plain_nodes()


async def _plain_nodes() -> list[float]:
    [port] = free_ports(1)
    address = f"{HEAD_HOST}:{port}"
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        async with AsyncExitStack() as running:
            head = ("--head", f"--port={port}", f"--node-ip-address={HEAD_HOST}")
            await running.enter_async_context(_node(folder / "h", token, *head))
            began = time.perf_counter()

            async def node(number: int, host: str) -> float:
                words = (f"--address={address}", f"--node-ip-address={host}")
                await running.enter_async_context(_node(folder / str(number), token, *words))
                return time.perf_counter() - began

            return list(await asyncio.gather(*(node(*each) for each in enumerate(NODE_HOSTS))))


@asynccontextmanager
async def _node(folder: Path, token: Path, *words: str) -> AsyncIterator[None]:
    """A node of Ray that runs."""
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "PYTHONUNBUFFERED": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
        *("--disable-usage-stats", f"--temp-dir={folder}", *words),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = []
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while STARTED not in (line := (await process.stdout.readline()).decode()):
                said.append(line)
                assert line, f"Ray did not start:\n{''.join(said)}"
        reading = asyncio.create_task(process.stdout.read())  # its buffer must not fill
        yield
        reading.cancel()
    finally:
        await end(process)

"""One account that asks for everything at once: the hub's health for others, memory and disk.

The same generator runs before against a stub with the same rates, so that what it takes of the
machine is in both figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from ec2spawner.core.rate_limit import Share
from ec2spawner.hub.app.call_limits import CallLimits
from tests.bench.figures import Figure, p95
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.starts import SETTLE, show_stalls
from tests.harness import TREE, end, free_ports

FLOOD = "tests.bench.scale.rig.flood"

BOOT_SECONDS = 0.5
FULL_SECONDS, SHORT_SECONDS = 120.0, 20.0
CONNECTIONS = 4
"""Of each kind of call."""

MIB = 2**20

USER = "mallory"


@dataclass(frozen=True, slots=True)
class Flooded:
    """What was seen while the generator ran."""

    health_ms: list[float]
    memory_mib: float
    """The most that the hub had, as the system counts it."""
    store_mib: float
    answers: dict[str, int]


async def one_account(directory: Path, seconds: float, console: Console) -> dict[str, Figure]:
    """The generator against a stub, then against the hub."""
    options = {"runs": {"at_once": 1}, "named_servers": True}
    async with CannedSite(directory, BOOT_SECONDS, options) as site:
        await site.add_users([USER])
        await site.add_tokens([USER])
        await site.start(USER)
        await asyncio.sleep(SETTLE)
        lease = site.agents.leases[-1]
        account = {
            "user": USER,
            "token": site.tokens[USER],
            "lease": lease[0],
            "lease_token": lease[1],
            "connections": CONNECTIONS,
            "seconds": seconds,
        }
        [port] = free_ports(1)
        server = await asyncio.start_server(Stub().serve, "127.0.0.1", port)
        idle = await flood(site, directory, account | {"port": port})
        server.close()
        began = time.time()
        busy = await flood(site, directory, account | {"port": site.hub.port})
        turns = site.hub.turns(began, time.time())
    show(idle, busy, console)
    show_stalls("one account", turns, console)
    return {
        "account_health_p95_ms": p95(busy.health_ms),
        "account_health_max_ms": max(busy.health_ms),
        "baseline_account_health_p95_ms": p95(idle.health_ms),
        "account_health_added_p95_ms": p95(busy.health_ms) - p95(idle.health_ms),
        "account_memory_added_mib": busy.memory_mib - idle.memory_mib,
        "account_store_mib": busy.store_mib,
        "account_served": sum(n for key, n in busy.answers.items() if key.split()[-1][0] == "2"),
        "account_limited": sum(n for key, n in busy.answers.items() if key.endswith("429")),
    }


async def flood(site: CannedSite, directory: Path, account: dict[str, Any]) -> Flooded:
    """Run the generator, and watch the hub meanwhile."""
    file = directory / "account.json"
    file.write_text(json.dumps(account), encoding="utf-8")
    hub, most = psutil.Process(site.process.pid), 0
    probe = await site.start_probe()
    process = await asyncio.create_subprocess_exec(
        *("nice", "-n", "19", sys.executable, "-m", FLOOD, str(file)),
        cwd=TREE,
        stdout=asyncio.subprocess.PIPE,
    )
    said = asyncio.ensure_future(process.communicate())
    try:
        while not said.done():
            most = max(most, hub.memory_info().rss)
            await asyncio.wait({said}, timeout=0.1)
    finally:
        health = await site.stop_probe(probe)
        await end(process)
    output, _ = await said
    files = site.hub.directory.glob("*.sqlite*")
    store = sum(file.stat().st_size for file in files if "jupyterhub" not in file.name)
    return Flooded(health, most / MIB, store / MIB, json.loads(output.splitlines()[-1]))


class Stub:
    """Answers as a hub that limits as ours does, and does nothing."""

    def __init__(self) -> None:
        self._limits = CallLimits()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.lower().split("\r\n")
                length = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length"))
                body = await reader.readexactly(length)
                wait = self._wait(lines[0], body)
                status = "200 OK" if not wait else f"429 Limited\r\nRetry-After: {int(wait) + 1}"
                await asyncio.sleep(1.0 if wait and "/leases/" in lines[0] else 0.0)
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
                await writer.drain()
        except (OSError, EOFError):
            writer.close()

    def _wait(self, line: str, body: bytes) -> float:
        """Seconds until such a call may be tried; 0 if it is answered."""
        limits, now, tokens = self._limits, time.monotonic(), 1
        key: Hashable = Share(USER, "lease" if "/leases/" in line else "token")
        limit = limits.user_calls
        if "/servers/" in line:
            limit, key = limits.server_calls, USER
        elif "/beat" in line:
            limit, key = limits.lease_calls, "lease"
        elif b'"parameters"' in body:
            limit = limits.run_submissions
        elif line.startswith("get ") or "/hardware" in line:
            tokens = 10
        taken = limit.take(key, now, tokens)
        return 0.0 if taken else limit.wait_seconds(key, now, tokens)


def show(idle: Flooded, busy: Flooded, console: Console) -> None:
    """A table of both spans, and of what was answered."""
    table = Table("", "idle, generator at a stub", "generator at the hub")
    table.add_row("health p95, ms", f"{p95(idle.health_ms):.1f}", f"{p95(busy.health_ms):.1f}")
    table.add_row("health max, ms", f"{max(idle.health_ms):.0f}", f"{max(busy.health_ms):.0f}")
    table.add_row("memory, MiB", f"{idle.memory_mib:.0f}", f"{busy.memory_mib:.0f}")
    table.add_row("store, MiB", f"{idle.store_mib:.0f}", f"{busy.store_mib:.0f}")
    for kind in sorted({*idle.answers, *busy.answers}):
        table.add_row(kind, str(idle.answers.get(kind, 0)), str(busy.answers.get(kind, 0)))
    console.print(table)

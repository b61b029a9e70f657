"""A restart of the hub under a thousand running servers: when all are reachable again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from ec2spawner.core import tags
from tests.bench.loop_monitor import Turn
from tests.bench.scale.canned_site import CannedSite
from tests.bench.scale.http_client import Connection, NoResponseError
from tests.bench.scale.site import by_action

TIMEOUT = 180.0
"""Seconds after which a server that is not reachable counts as lost."""

CALLS_SECONDS = 60.0
"""From the start of the hub on, in which calls of EC2 are counted."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks of which servers the hub calls ready."""

SAMPLE = 10
"""Users whose servers are checked before all are listed."""

CONNECTIONS = 20
"""Requests at once through the proxy."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds are from the start of the new process."""

    stop_s: float
    """The end of the old process, by SIGTERM."""
    serving_s: float | None
    """Until the hub answered through the proxy; None if it ended instead."""
    reachable_s: float | None
    """Until the hub called every server ready and each had answered its user's URL; None if some
    never did."""
    lost: Sequence[str]
    calls: Counter[str]
    seconds: float
    """In which the calls were made."""
    turns: Sequence[Turn]


async def restart_hub(site: CannedSite, users: Sequence[str], console: Console) -> Restart:
    """End the hub, start it, and wait until every server is ready and answers at its URL.

    The proxy keeps running, as in production. Each URL is requested through it, and the answer must
    come from the address of the user's own instance.
    """
    before = len(await site.calls())
    stop_s = await site.restart_hub()
    began, at = time.monotonic(), time.time()
    try:
        await site.hub.wait_serving()
    except AssertionError as error:
        console.print(f"The hub did not start again: {error}", markup=False)
        return Restart(stop_s, None, None, users, Counter(), time.monotonic() - began, ())
    serving_s = time.monotonic() - began
    # To list a thousand users takes the hub seconds, which are not its start's: a few come first.
    for user in users[:: max(1, len(users) // SAMPLE)]:
        while not await site.is_ready(user) and time.monotonic() - began < TIMEOUT:
            await asyncio.sleep(CHECK_INTERVAL)
    missing = set(users)
    while missing and time.monotonic() - began < TIMEOUT:
        missing -= await site.ready_servers()
        await asyncio.sleep(CHECK_INTERVAL if missing else 0)
    unreachable = set(users) - await reachable(site, users)
    reachable_s = time.monotonic() - began
    await asyncio.sleep(max(0.0, CALLS_SECONDS - (time.monotonic() - began)))
    calls = by_action(await site.calls(before))
    seconds = time.monotonic() - began
    turns = site.hub.turns(at, at + seconds)
    lost = sorted(missing | unreachable)
    return Restart(
        stop_s,
        serving_s,
        None if lost else reachable_s,
        lost,
        calls,
        seconds,
        turns,
    )


async def reachable(site: CannedSite, users: Sequence[str]) -> set[str]:
    """Users whose servers answer at their URL, each from its own instance."""
    addresses = {
        instance.tags.get(tags.USER, ""): instance.address
        for instance in site.ec2.instances.values()
        if instance.state == "running"
    }
    waiting, found = list(users), set()

    async def ask() -> None:
        connection = Connection("127.0.0.1", site.hub.port)
        while waiting:
            user = waiting.pop()
            try:
                response = await connection.request("GET", f"/user/{user}/api", timeout=30)
            except NoResponseError:
                continue
            if response.status == 200 and response.json()["address"] == addresses.get(user):
                found.add(user)
        connection.close()

    await asyncio.gather(*(ask() for _ in range(CONNECTIONS)))
    return found

"""A restart of the hub under a thousand running servers: when all are reachable again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ec2spawner.core import tags
from tests.bench.figures import Figure
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.rig.http_client import Connection, NoResponseError
from tests.bench.scale.rig.observation import Observation, Observer
from tests.bench.scale.starts import show_stalls

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
    after: Observation
    """From the start of the new process on, for `CALLS_SECONDS` at least."""

    @property
    def figures(self) -> Mapping[str, Figure]:
        return {
            "restart_1000_s": self.reachable_s,
            "restart_1000_serving_s": self.serving_s,
            "restart_1000_reachable_s": self.reachable_s,
            "restart_1000_stop_s": self.stop_s,
            "restart_1000_lost": len(self.lost),
            "restart_1000_calls": self.after.calls.total(),
        }


async def restart_hub(site: CannedSite, users: Sequence[str], console: Console) -> Restart:
    """End the hub, start it, and wait until every server is ready and answers at its URL.

    The proxy keeps running, as in production. Each URL is requested through it, and the answer must
    come from the address of the user's own instance.
    """
    stop_s = await site.restart_hub()
    observer = await Observer.begin(site)
    try:
        await site.hub.wait_serving()
    except AssertionError as error:
        console.print(f"The hub did not start again: {error}", markup=False)
        return Restart(stop_s, None, None, users, await observer.end())
    serving_s = observer.seconds
    # To list a thousand users takes the hub seconds, which are not its start's: a few come first.
    for user in users[:: max(1, len(users) // SAMPLE)]:
        while not await site.is_ready(user) and observer.seconds < TIMEOUT:
            await asyncio.sleep(CHECK_INTERVAL)
    missing = set(users)
    while missing and observer.seconds < TIMEOUT:
        missing -= await site.ready_servers()
        await asyncio.sleep(CHECK_INTERVAL if missing else 0)
    unreachable = set(users) - await reachable(site, users)
    reachable_s = observer.seconds
    await asyncio.sleep(max(0.0, CALLS_SECONDS - observer.seconds))
    lost = sorted(missing | unreachable)
    return Restart(stop_s, serving_s, None if lost else reachable_s, lost, await observer.end())


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


def show_restart(restart: Restart, console: Console) -> None:
    """A table of the restart, and the stalls after it."""
    table = Table("restart of the hub", "")
    table.add_row("end of the old one, s", f"{restart.stop_s:.1f}")
    for name, seconds in (
        ("start until it serves, s", restart.serving_s),
        ("start until all are ready and answer, s", restart.reachable_s),
    ):
        table.add_row(name, "never" if seconds is None else f"{seconds:.1f}")
    table.add_row("lost", ", ".join(restart.lost[:5]) or "none")
    for action, number in restart.after.calls.most_common():
        table.add_row(f"{action} in {restart.after.seconds:.0f} s", str(number))
    console.print(table)
    show_stalls("after the restart", restart.after.turns, console)

"""Starts while spot is to be had everywhere, in one zone only, and nowhere."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.bench.bench_hub import START_TIMEOUT, BenchHub, StartFailedError
from tests.bench.start_story import read_milestones
from tests.harness import Embedded, until

INSTANCE_TYPE = "g4dn.xlarge"
"""The cheapest of the demo's default profile: the zone that is left has it."""

QUIET = 1.0
"""Seconds without a call, after which a hub that has just started has read what it reads."""

QUIET_TIMEOUT = 30.0

KINDS = WARM_UP, EVERYWHERE, SOLD_OUT, NOWHERE, AGAIN = (
    "warm-up",
    "everywhere",
    "sold-out",
    "nowhere",
    "again",
)
"""In this order on each hub. `sold-out` leaves one zone; `again` is `nowhere` once more, now that
the hub knows. The first start of a hub makes its launch template besides, and is left out."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start up to the launch of its instance."""

    seconds: float
    """From the POST to EC2's answer that has the instance, as the store knows it."""
    calls: Counter[str]
    """API calls in that time, by action."""
    market: str
    zone: str


@dataclass(frozen=True, slots=True)
class HubLaunches:
    """What one hub did, by kind of start."""

    zones: int
    launches: Mapping[str, Launch]

    def extra_calls(self, kind: str) -> int:
        """Calls more than where spot is to be had everywhere."""
        return self.launches[kind].calls.total() - self.launches[EVERYWHERE].calls.total()


async def measure_launches(directory: Path, hubs: int, console: Console) -> list[HubLaunches]:
    """`hubs` hubs, one after the other: a hub remembers what is sold out, a new one does not."""
    embedded = Embedded(directory / "embedded", boot_seconds=0)
    found = []
    async with AsyncExitStack() as running:
        running.push_async_callback(embedded.stop)
        await embedded.start()
        zones = await asyncio.to_thread(_zones_with, embedded, INSTANCE_TYPE)
        for number in range(hubs):
            found.append(await one_hub(number, directory, embedded, zones))
            for kind in KINDS[1:]:
                launch = found[-1].launches[kind]
                console.print(
                    f"{number + 1:3}/{hubs} {kind:10} {1000 * launch.seconds:5.0f} ms "
                    f"{launch.calls.total():2} calls, {launch.market} in {launch.zone}",
                    style="dim",
                )
    return found


async def one_hub(
    number: int, directory: Path, embedded: Embedded, fitting: Sequence[str]
) -> HubLaunches:
    """Starts of every kind on a hub that knows nothing yet, each for a user of its own.

    The `fitting` zones have what is asked for. The one that is left of them differs from hub to
    hub, and is never the one that is taken while all are open.
    """
    name = f"hub-{number}"
    hub = BenchHub(name, directory / name, embedded, Path(__file__).parent / "hub_config.py")
    users = {kind: f"{name}-{kind}" for kind in KINDS}
    zones = embedded.described["zones"]
    clicked: dict[str, float] = {}
    places: dict[str, tuple[str, str]] = {}

    async def start(kind: str, *sold_out: str) -> None:
        await _set_spot(embedded, sold_out)
        clicked[kind], places[kind] = await one_start(hub, embedded, users[kind])

    try:
        await hub.start()
        await start(WARM_UP)
        await start(EVERYWHERE)
        others = [zone for zone in fitting if zone != places[EVERYWHERE][1]]
        left = others[number % len(others)]
        await start(SOLD_OUT, *(zone for zone in zones if zone != left))
        await start(NOWHERE, *zones)
        await start(AGAIN, *zones)
    finally:
        await _set_spot(embedded, ())
        await hub.stop()
    milestones = read_milestones(hub.directory / "ec2spawner.sqlite")
    calls = await embedded.control("calls")
    launches = {}
    for kind, user in users.items():
        launched = milestones[user].launched
        if launched is None:
            raise StartFailedError(f"the store does not know when {user} had an instance")
        end = launched.timestamp()
        launches[kind] = Launch(
            end - clicked[kind], _calls_between(calls, clicked[kind], end), *places[kind]
        )
    return HubLaunches(len(zones), launches)


async def one_start(hub: BenchHub, embedded: Embedded, user: str) -> tuple[float, tuple[str, str]]:
    """When it was clicked, and the market and zone of what it got; then everything is gone."""
    await hub.add_user(user)
    await _quiet(embedded)
    clicked = time.time()
    await hub.click_to_ready(user)
    [instance] = [i for i in await embedded.instances() if i["processes"]]
    await hub.stop_server(user)

    async def nothing_runs() -> bool:
        return not any(i["processes"] for i in await embedded.control("instances"))

    await until(nothing_runs, START_TIMEOUT, f"the instance of {user} to be gone")
    return clicked, (instance["market"], instance["zone"])


async def _quiet(embedded: Embedded) -> None:
    """Wait until a second has passed without a call: then what follows is the start's."""
    seen, since = -1, time.monotonic()

    async def is_quiet() -> bool:
        nonlocal seen, since
        calls = len(await embedded.control("calls"))
        if calls != seen:
            seen, since = calls, time.monotonic()
        return time.monotonic() - since >= QUIET

    await until(is_quiet, QUIET_TIMEOUT, "the hub to have read what it reads")


async def _set_spot(embedded: Embedded, sold_out: Iterable[str]) -> None:
    """Spot without limit, but none in these zones."""
    for zone, available in {"*": None, **dict.fromkeys(sold_out, 0)}.items():
        order = {"market": "spot", "instance_type": "*", "zone": zone, "available": available}
        await embedded.control("capacity", order)


def _calls_between(calls: list[dict[str, Any]], begin: float, end: float) -> Counter[str]:
    """By action; the log has milliseconds."""
    return Counter(
        call["action"]
        for call in calls
        if begin - 0.001 <= datetime.fromisoformat(call["time"]).timestamp() <= end
    )


def _zones_with(embedded: Embedded, instance_type: str) -> list[str]:
    """The zones of the embedded EC2 that have the type, in their order."""
    answer = embedded.client().describe_instance_type_offerings(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    offered = {offering["Location"] for offering in answer["InstanceTypeOfferings"]}
    return [zone for zone in embedded.described["zones"] if zone in offered]

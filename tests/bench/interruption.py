"""`interruption`: EC2 reclaims a server's spot instance in the middle of work, again and again.

One hub on an embedded EC2 whose instances boot in no time. Users come one after the other, each is
at work in a notebook, has a resumable loop running in another and files open, and is interrupted
twice in a row: a third time within minutes, a server does not continue, by design. Each
interruption is timed from the control call that gives notice until a cell has run that uses the
variables; that includes the time until the agent sees the notice. Then all of it is compared with
what it was.

The baseline is a hub whose servers neither sleep nor continue, and the fastest of users, who stop
their server at the notice, start it again, and run all cells anew. Besides, an idle stop with a
variable of a gigabyte and the start that wakes it, beside a start that wakes nothing.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, Goal, Result, median, p95
from tests.bench.interrupted_work import Lost, Worker
from tests.bench.interruption_baselines import (
    BY_HAND,
    IDLE,
    ByHand,
    Waking,
    idle_stop_and_wake,
    interrupt_by_hand,
)
from tests.bench.interruption_browser import OpenPages, open_pages
from tests.bench.interruption_story import PHASES, phase_seconds, read_moments
from tests.bench.machine import describe_machine
from tests.e2e.chromium import CHROMIUM
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.jupyter_by_hand import Jupyter

INTERRUPTIONS = 20
INTERRUPTIONS_SHORT = 2

IN_A_ROW = 2
"""Of one server. A third one within two minutes each would end it: see `MAX_SHORT_RUNS`."""

BASELINES = 3
BASELINES_SHORT = 1

GIGABYTE = 10**9

IN_BROWSER = 3
"""Every third user has pages open in Chromium, if it is there."""

NOTICE_SECONDS = 120

PROFILES = ("t4-16-gb", "a10g-24-gb")
"""They take turns: what EC2 has reclaimed counts as sold out for some minutes, and on-demand
instances, which are bought then, get no notices."""

GOALS = {
    "edits_lost": Goal(0),
    "variables_lost": Goal(0),
    "checkpoints_lost": Goal(0),
    "addresses_lost": Goal(0),
    "leaks": Goal(0),
    "median_s": Goal(5, inclusive=False),
}


@dataclass(frozen=True, slots=True)
class Interruption:
    """One of them, and what it cost. Seconds since the epoch."""

    user: str
    noticed: float
    seconds: float
    lost: Lost
    page_seconds: float | None
    """Until a cell has run in a page that was open, where there was one."""

    @property
    def working(self) -> float:
        return self.noticed + self.seconds


@dataclass(slots=True)
class Measured:
    interruptions: list[Interruption] = field(default_factory=list)
    phases: list[tuple[float, ...]] = field(default_factory=list)
    """By interruption: seconds of each of `PHASES`."""
    leaks: int = 0
    waking: Waking | None = None
    baselines: list[ByHand] = field(default_factory=list)


def run(starts: int | None, short: bool, console: Console) -> Result:
    """Interrupt, compare, show a table. Raises `StartFailedError`."""
    machine = describe_machine()
    count = starts or (INTERRUPTIONS_SHORT if short else INTERRUPTIONS)
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as directory:
        found = asyncio.run(measure(Path(directory), count, short, console))
    show(found, console)
    return Result("interruption", figures_of(found), GOALS, machine)


async def measure(directory: Path, count: int, short: bool, console: Console) -> Measured:
    found, left_behind = Measured(), set[str]()
    embedded = Embedded(directory / "embedded", notebook="jupyterlab")
    async with AsyncExitStack() as running:
        running.push_async_callback(embedded.stop)
        await embedded.start()
        async with running_hub(directory / "ours", embedded, IDLE) as hub:
            number = 0
            while len(found.interruptions) < count:
                left = count - len(found.interruptions)
                user = f"user-{number:02}"
                found.interruptions += await one_user(hub, user, number, left, left_behind, console)
                number += 1
            if not short:
                found.waking = await idle_stop_and_wake(hub, "sleeper", GIGABYTE)
                console.print(f"{found.waking}", style="dim")
        async with running_hub(directory / "by-hand", embedded, *BY_HAND) as hub:
            for number in range(BASELINES_SHORT if short else BASELINES):
                one = await interrupt_by_hand(hub, f"by-hand-{number}", NOTICE_SECONDS)
                console.print(f"{one}", style="dim")
                found.baselines.append(one)
        found.leaks = await leaks(embedded)
    moments = read_moments(directory / "ours" / "ec2spawner.sqlite")
    for each in found.interruptions:
        seconds = phase_seconds(each.noticed, moments[each.user].pop(0), each.working)
        found.phases.append(seconds)
    return found


@asynccontextmanager
async def running_hub(directory: Path, embedded: Embedded, *lines: str) -> AsyncIterator[Hub]:
    hub = Hub(directory, embedded, config=demo_config(directory / "config", *lines))
    try:
        yield await hub.start()
    finally:
        await hub.stop()


async def one_user(
    hub: Hub, user: str, number: int, left: int, left_behind: set[str], console: Console
) -> list[Interruption]:
    """At most `left` interruptions of a user's server, from its start to its stop.

    `left_behind` are instances that EC2 reclaims within two minutes.
    """
    await hub.start_server(user, options={"profile": PROFILES[number % len(PROFILES)]})
    done: list[Interruption] = []
    url, token = f"{hub.url}/user/{user}/", await hub.user_token(user)
    async with AsyncExitStack() as at_work:
        client = await at_work.enter_async_context(browser(hub, user))
        worker = Worker(hub, user, await at_work.enter_async_context(Jupyter(url, token)))
        await client.get(f"/user/{user}/lab")
        await worker.begin()
        pages = None
        if CHROMIUM and number % IN_BROWSER == 0:
            pages = await at_work.enter_async_context(open_pages(worker))
        while len(done) < min(left, IN_A_ROW) and (
            instance_id := await spot_instance(hub.embedded, left_behind)
        ):
            left_behind.add(instance_id)
            # The pages reconnect once: that is what they are opened for.
            shown = None if done else pages
            one = await interrupt(worker, client, shown, instance_id, len(done))
            done.append(one)
            page = "" if one.page_seconds is None else f", page {one.page_seconds:.1f} s"
            console.print(f"{user} {one.seconds:6.2f} s{page}  {one.lost}", style="dim")
    await hub.stop_server(user)

    async def is_gone() -> bool:
        return {x["instance_id"] for x in await hub.embedded.instances()} <= left_behind

    await until(is_gone, 60, f"the instance of {user} to be gone")
    return done


async def leaks(embedded: Embedded) -> int:
    """Instances that are left once EC2 has ended all that it has reclaimed."""

    async def none_left() -> bool:
        return not await embedded.instances()

    with suppress(AssertionError):
        await until(none_left, NOTICE_SECONDS + 60, "all instances to be gone")
    return len(await embedded.instances())


async def spot_instance(embedded: Embedded, left_behind: Set[str]) -> str:
    """The id of the only instance that EC2 does not reclaim already, if it may."""
    found = await embedded.instances()
    [instance] = [each for each in found if each["instance_id"] not in left_behind]
    return str(instance["instance_id"]) if instance["market"] == "spot" else ""


async def interrupt(
    worker: Worker,
    client: httpx.AsyncClient,
    pages: OpenPages | None,
    instance_id: str,
    number: int,
) -> Interruption:
    embedded = worker.hub.embedded
    expected = await worker.change(number)
    if pages is not None:
        expected.typed = f"typed before interruption {number}"
        await pages.type(expected.typed)
    noticed, began = time.time(), time.perf_counter()
    await embedded.control(f"interrupt/{instance_id}", {"notice_seconds": NOTICE_SECONDS})
    found = await worker.until_working(datetime.fromtimestamp(noticed, UTC))
    seconds = time.perf_counter() - began
    page_seconds = await pages.seconds_until_cell(began) if pages else None
    reply = await client.get(f"/user/{worker.user}/api/status", follow_redirects=False)
    lost = await worker.lost(expected, found, reply.status_code)
    return Interruption(worker.user, noticed, seconds, lost, page_seconds)


def figures_of(found: Measured) -> dict[str, Figure]:
    """The figures by their names in `DESIGN.md`."""
    seconds = [each.seconds for each in found.interruptions]
    lost = [each.lost for each in found.interruptions]
    pages = [x.page_seconds for x in found.interruptions if x.page_seconds is not None]
    return {
        "interruptions": len(seconds),
        "edits_lost": sum(len(each.edits) for each in lost),
        "variables_lost": sum(len(each.variables) for each in lost),
        "checkpoints_lost": sum(len(each.checkpoints) for each in lost),
        "addresses_lost": sum(len(each.addresses) for each in lost),
        "leaks": found.leaks,
        "median_s": median(seconds),
        "p95_s": p95(seconds),
        "in_browser": len(pages),
        "page_median_s": median(pages) if pages else None,
        "by_hand_median_s": median([each.seconds for each in found.baselines]),
        "by_hand_variables_lost": sum(each.variables_lost for each in found.baselines),
        "idle_stop_1gb_s": found.waking.stop if found.waking else None,
        "wake_1gb_s": found.waking.wake if found.waking else None,
        "start_without_session_s": found.waking.start if found.waking else None,
    }


# --- for people ---------------------------------------------------------------------------------


def show(found: Measured, console: Console) -> None:
    console.print(_phases_table(found.phases))


def _phases_table(phases: Sequence[tuple[float, ...]]) -> Table:
    table = Table("where an interruption goes", "median ms", "p95 ms", "max ms")
    for name, seconds in zip(PHASES, zip(*phases, strict=True), strict=True):
        figures = (median(seconds), p95(seconds), max(seconds))
        table.add_row(name, *(f"{1000 * figure:.0f}" for figure in figures))
    return table

"""Runs of one array while their instances are reclaimed and their hub is killed.

Everything is real but EC2: hub, agents and executors. Each run is a small script, because what is
counted is results. Three never end by themselves and have a cost cap instead.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from tests.harness import Embedded, Hub, demo_config, until
from tests.runs_by_rest import Runs, runs_of

AT_ONCE = 20

CAP_USD = 0.008
"""Of each run: about eight minutes of the cheapest offer. Those that end by themselves can afford
more than one interruption, also while the machine is busy."""

NEVER_ENDING = 3

KILLS_EVERY = 45.0
"""Seconds between two kills of the hub."""

INTERRUPTIONS_EVERY = 8.0
"""Seconds between two notices."""

SETTLED_WITHIN = 3600.0

SCRIPT = """
import sys, time
place = int(sys.argv[sys.argv.index("--place") + 1])
print("begun", place, flush=True)
time.sleep(10_000 if place < 3 else 1 + place % 5)
print("result", place)
"""

OPTIONS = (
    f"c.EC2Spawner.runs = {{'at_once': {AT_ONCE}}}",
    "c.EC2Spawner.home = {'kind': 'ebs', 'size_gib': 1}",
    "c.EC2Spawner.stop_timeout = '15s'",
)


@dataclass(frozen=True, slots=True)
class ArrayResults:
    """What became of the runs."""

    runs: int
    outcomes: Counter[str]
    results_lost: int
    """Runs without exactly the one result that is theirs."""
    table_differs_usd: float
    """Between the cost table of the array and the ledger, summed over all runs."""
    above_cap_usd: float
    """What the dearest run cost beyond its cap; 0 for none."""
    begun_again: int
    """Runs that had more than one instance."""
    kills: int
    interruptions: int
    leaked: int
    """Instances that run after the last run has ended."""


async def measure_array(directory: Path, runs: int, console: Console) -> ArrayResults:
    """Submit, disturb, wait for the last one, and compare."""
    async with AsyncExitStack() as running:
        embedded = Embedded(directory / "ec2", notebook="jupyterlab")
        running.push_async_callback(embedded.stop)
        await embedded.start()
        config = demo_config(directory / "config", *OPTIONS)
        hub = Hub(directory / "hub", embedded, config=config)
        running.push_async_callback(hub.stop)
        await hub.start()
        disturbed = Disturbed(hub, await runs_of(hub, "ann"), console)
        running.push_async_callback(disturbed.api.aclose)
        first = await disturbed.submit(runs)
        found = await disturbed.until_all_have_ended(first)
        await disturbed.until_nothing_runs()
        return await disturbed.compared(found)


class Disturbed:
    """One hub, and what happens to it."""

    def __init__(self, hub: Hub, runs: Runs, console: Console) -> None:
        self.hub = hub
        self.runs = runs
        self.api = runs.api
        self.console = console
        self.dice = random.Random(16)
        self.kills = 0
        self.interruptions = 0

    async def submit(self, runs: int) -> int:
        """Number of the first."""
        places = [{"place": place} for place in range(runs)]
        return await self.runs.submit(
            SCRIPT, "work.py", parameters=places, retries=100, max_usd=CAP_USD
        )

    async def until_all_have_ended(self, first: int) -> list[dict[str, Any]]:
        """All runs, once none is under way; meanwhile the hub is killed and instances reclaimed."""
        loop = asyncio.get_running_loop()
        killed_at = interrupted_at = loop.time()

        async def all_ended() -> list[dict[str, Any]] | None:
            nonlocal killed_at, interrupted_at
            if loop.time() - interrupted_at > INTERRUPTIONS_EVERY:
                interrupted_at = loop.time()
                await self.interrupt_one()
            if loop.time() - killed_at > KILLS_EVERY:
                await self.hub.kill()
                await asyncio.sleep(self.dice.uniform(0, 3))
                await self.hub.start()
                self.kills += 1
                killed_at = loop.time()
            runs = await self.array(first)
            left = sum(run["state"] != "ended" for run in runs)
            self.console.print(f"{len(runs) - left} of {len(runs)} runs have ended", style="dim")
            await asyncio.sleep(2)
            return None if left else runs

        return await until(all_ended, SETTLED_WITHIN, "all runs to end")

    async def interrupt_one(self) -> None:
        """A notice for one instance that runs."""
        instances = [x for x in await self.hub.embedded.instances() if x["state"] == "running"]
        if instances:
            chosen = self.dice.choice(instances)["instance_id"]
            await self.hub.embedded.control(f"interrupt/{chosen}", {"notice_seconds": 2})
            self.interruptions += 1

    async def array(self, first: int) -> list[dict[str, Any]]:
        reply = await self.api.get(f"/runs/{first}", params={"array": ""})
        assert reply.is_success, reply.text
        runs: list[dict[str, Any]] = reply.json()["runs"]
        return runs

    async def until_nothing_runs(self) -> None:
        async def nothing_runs() -> bool:
            return not await self.running()

        await until(nothing_runs, 120, "the last instances to end")

    async def running(self) -> list[dict[str, Any]]:
        instances = await self.hub.embedded.instances()
        return [x for x in instances if x["state"] in {"pending", "running"}]

    async def compared(self, runs: list[dict[str, Any]]) -> ArrayResults:
        ledger = await self.ledger()
        lost = [run for run in runs if not await self.has_its_result(run)]
        for run in lost:
            self.console.print(f"without its result: {run}")
        table = {f"/run/{run['number']}": run["usd"] or 0.0 for run in runs}
        return ArrayResults(
            runs=len(runs),
            outcomes=Counter(run["outcome"] for run in runs),
            results_lost=len(lost),
            table_differs_usd=sum(abs(usd - ledger.get(key, 0)) for key, usd in table.items()),
            above_cap_usd=max(0.0, max(table.values()) - CAP_USD),
            begun_again=sum(run["attempts"] > 1 for run in runs),
            kills=self.kills,
            interruptions=self.interruptions,
            leaked=len(await self.running()),
        )

    async def has_its_result(self, run: dict[str, Any]) -> bool:
        """A run that ended has what it printed, once; one at its cap ended by that."""
        place = run["parameters"]["place"]
        if place < NEVER_ENDING:
            return bool(run["outcome"] == "cost-cap")
        reply = await self.result(run["number"])
        said = reply.text.split("\n")
        is_whole = said.count(f"result {place}") == 1 and said.count(f"begun {place}") == 1
        return run["outcome"] == "succeeded" and reply.is_success and is_whole

    async def result(self, number: int) -> httpx.Response:
        """Asked for again when the hub says that it gets too many calls."""
        while True:
            reply = await self.api.get(f"/runs/{number}/result")
            if reply.status_code != 429:
                return reply
            await asyncio.sleep(int(reply.headers["Retry-After"]))

    async def ledger(self) -> dict[str, float]:
        """USD of instances, by server."""
        today = datetime.now(UTC).date()
        days = {"from": f"{today - timedelta(days=1)}", "to": f"{today}"}
        reply = await self.api.get("/usage/costs", params={**days, "by": "server,resource"})
        assert reply.is_success, reply.text
        sums: Counter[str] = Counter()
        for each in reply.json()["sums"]:
            server, resource = each["key"]
            if not resource.startswith(("home", "snapshot")):
                sums[server] += each["usd"]
        return dict(sums)

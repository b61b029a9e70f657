"""Two hundred runs, twenty at once, with lost instances and killed hubs: each has one result."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter

import pytest

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.runs.queue import QueueRules
from ec2spawner.provisioner.instances import listing
from ec2spawner.provisioner.model.leases.run import RunState
from tests.unit.provisioner.costs import costs
from tests.unit.provisioner.runs.submitted import (
    allow_runs,
    report,
    run_of,
    seen,
    start_due,
    submit,
)
from tests.unit.provisioner.world import Agent, World, until

RUNS = 200

AT_ONCE = 20

CAPPED = frozenset(range(10, RUNS, 20))
"""Places of runs that never end by themselves."""

CAP_USD = 0.05

TURNS_OF_A_HUB = 10


async def test_each_run_has_one_result_and_the_table_is_the_ledger(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A large hub lists all instances once a minute, of real time.
    monkeypatch.setattr(listing, "SMALL", 10_000)
    world, dice = priced, random.Random(16)
    allow_runs(world, QueueRules(AT_ONCE), stop_timeout=0.0, recovery_grace=0.0)
    numbers = await submit(world, RUNS, retries=100, max_usd=CAP_USD)
    results: Counter[int] = Counter()
    kills = 0
    agents: dict[str, Agent] = {}
    for turn in itertools.count(1):
        if all(run_of(world, each).state is RunState.ENDED for each in numbers):
            break
        if turn % TURNS_OF_A_HUB == 0:
            kills += 1
            # While no instance is missing: until it has read spot prices, a hub buys on demand.
            await world.restart()
            await until(lambda: world.provisioner.market.prices._spot, "prices")
        await start_due(world)
        running = set(world.cloud.running())
        assert len(running) <= AT_ONCE
        for instance_id in running - agents.keys():
            agents[instance_id] = Agent(world, instance_id)
        await asyncio.gather(*(serve(agents[x], dice, results) for x in running))
        world.clock.advance(60.0)
        for instance_id in [x for x in world.cloud.running() if dice.random() < 0.03]:
            world.cloud.end(instance_id)
        await world.complete_passes(1)
    await until(lambda: all(run_of(world, each).is_cleared for each in numbers), "nothing left")
    await world.settle()

    assert world.cloud.running() == []
    assert kills > 2
    outcomes = Counter(seen(world, each).outcome for each in numbers)
    assert outcomes == {"succeeded": RUNS - len(CAPPED), "cost-cap": len(CAPPED)}
    assert set(results.values()) == {1}, "each end was taken once"
    ledger = await costs(world, Dimension.SERVER)
    table = {f"/run/{each}": seen(world, each).usd for each in numbers}
    assert {key: round(usd or 0, 8) for key, usd in table.items()} == {
        key: round(each.nano_usd / 1e9, 8) for (key,), each in ledger.items() if key in table
    }
    assert max(usd or 0 for usd in table.values()) <= CAP_USD
    assert sum(len(run_of(world, each).attempts) > 1 for each in numbers) > 10


async def serve(agent: Agent, dice: random.Random, results: Counter[int]) -> None:
    """One turn of an instance: it comes up, or works, or is done."""
    world = agent.world
    if agent.lease is None:
        if await agent.claim(10.0) is None:
            agent.lease = None
            return
        for step in ("home", "notebook", "ready"):
            await agent.event(step)
        await report(agent, "begin")
        return
    lease = world.provisioner._state.leases.get(agent.lease.lease_id)
    if lease is None:
        return
    await agent.heartbeat()
    place = lease.run - 1
    if place in CAPPED or dice.random() < 0.4:
        await report(agent, "progress", cells_done=1, cells_total=2)
        return
    if await report(agent, "end", succeeded=True, result="ZG9uZQ==") is not None:
        results[lease.run] += 1

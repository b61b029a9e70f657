"""A scripted day costs what a stopwatch and EC2's price history say, and limits know it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.pool.rules import PoolRules
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.provisioner.limits.controller import CHECK_INTERVAL
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.reconciler import PASS_INTERVAL
from ec2spawner.wire import Market
from tests.unit.provisioner.clusters.test_clusters import CLUSTER
from tests.unit.provisioner.costs import costs, spent
from tests.unit.provisioner.pool.pool_world import name_spec, rules
from tests.unit.provisioner.runs.submitted import allow_runs, complete, executor, submit
from tests.unit.provisioner.world import SPEC, Agent, World, until

POOLS = [("g4dn.xlarge", "us-east-1a"), ("g4dn.xlarge", "us-east-1b")]
SPOT, ON_DEMAND = 0.20, 0.526
"""USD/hour of a T4: on spot until its price rises tenfold, and on demand."""
ONLY_ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))
PRICE_INTERVAL = Settings(hub="hub", region="us-east-1", subnets=()).price_interval
CALLS = 20.0
"""Seconds that the calls to EC2 and the steps of a pass take here at most."""
FREE = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@dataclass
class Day:
    """The world, who works in it, and what EC2 charges for."""

    world: World
    busy: list[Agent] = field(default_factory=list)
    waiting: dict[str, Agent] = field(default_factory=dict)
    """By instance id: agents of the pool."""

    async def begin(self) -> None:
        for pool in POOLS:
            self.world.cloud.histories[pool] = (PricePoint(self.now - timedelta(days=9), SPOT),)
        await self.world.restart(pool=rules(1))
        name_spec(self.world)
        await until(lambda: self.world.provisioner.market.prices._spot, "prices")
        await self.pool_waits()

    @property
    def now(self) -> datetime:
        return self.world.clock()

    def rises(self, at: datetime, factor: float = 10.0) -> None:
        """The spot price does then, which EC2 shows from then on."""
        for pool in POOLS:
            before = self.world.cloud.histories[pool]
            usd = before[-1].usd_per_hour * factor
            self.world.cloud.histories[pool] = (*before, PricePoint(at, usd))

    async def pool_waits(self) -> None:
        """One that no lease has had runs and claims."""
        world = self.world
        served = {machine.instance_id for machine in self.busy}
        await until(lambda: set(world.cloud.running()) - served - self.waiting.keys(), "a place")
        for instance_id in set(world.cloud.running()) - served - self.waiting.keys():
            self.waiting[instance_id] = Agent(world, instance_id)
            assert await self.waiting[instance_id].claim(wait=10.0) is None

    async def takes_place(self, user: str) -> Agent:
        """A server begins on the instance that waits."""
        agent = self.waiting.popitem()[1]
        await self.world.request(user)
        await agent.serve()
        self.busy.append(agent)
        await self.pool_waits()
        return agent

    async def ready(self, user: str, **changes: object) -> Agent:
        _, agent = await self.world.ready(user, **changes)
        self.busy.append(agent)
        return agent

    async def passes(self, minutes: float) -> None:
        """Time with agents that are there and busy."""
        until_then = self.now + timedelta(minutes=minutes)
        while self.now < until_then:
            self.world.clock.advance(min(1200.0, (until_then - self.now).total_seconds()))
            for agent in self.busy:
                await agent.heartbeat()
            for instance_id in self.waiting:
                self.world.provisioner._state.claims.heard(instance_id)
            await self.world.watch_passes(1)

    async def stops(self, agent: Agent) -> None:
        """Its user ends it, and its agent says so."""
        assert agent.lease is not None
        self.busy.remove(agent)
        await asyncio.gather(self.world.stop(agent.lease), agent.event("stopped"))
        await self.world.state(agent.lease, LeaseState.ENDED)

    async def is_interrupted(self, agent: Agent) -> None:
        self.busy.remove(agent)
        self.world.cloud.end(agent.instance_id)
        assert agent.lease is not None
        await self.world.state(agent.lease, LeaseState.ENDED)

    # --- the stopwatch ---

    def due(self) -> float:
        """USD that EC2 charges for all instances up to now: by its own times and prices, and
        nothing of the hub's."""
        return sum(map(self.due_of, self.world.cloud.machines))

    def due_of(self, instance_id: str, since: datetime | None = None) -> float:
        machine = self.world.cloud.machines[instance_id]
        instance, begin = machine.instance, since or machine.instance.launched_at
        end = machine.ended_at or self.now
        if machine.ended_reason == "Server.SpotInstanceTermination" and end - begin < FREE:
            return 0.0
        end = max(end, begin + MINUTE)
        if instance.market is Market.ON_DEMAND:
            return ON_DEMAND * hours(end - begin)
        points = self.world.cloud.histories[instance.instance_type, instance.zone]
        ends = [*(point.at for point in points[1:]), end]
        return sum(
            point.usd_per_hour * hours(max(min(until, end) - max(point.at, begin), timedelta()))
            for point, until in zip(points, ends, strict=True)
        )


def hours(duration: timedelta) -> float:
    return duration / timedelta(hours=1)


async def stored(world: World) -> float:
    """USD that the ledger has, of what runs and of what has ended."""
    await world.complete_passes(2)
    await until(lambda: not world.store.write_behind._writes, "what is written meanwhile")
    usd = spent(world, "hub").usd
    assert usd is not None, "every price is known"
    return usd


async def test_a_scripted_day_costs_what_a_stopwatch_and_the_price_history_say(
    world: World,
) -> None:
    allow_runs(world)
    day = Day(world)
    await day.begin()
    await day.passes(45)
    ada = await day.takes_place("ada")
    await day.passes(50)
    carl = await day.ready("carl", spec=ONLY_ON_DEMAND)
    await day.passes(40)
    await day.is_interrupted(ada)  # after more than an hour: it is charged
    bob = await day.ready("bob")
    await day.passes(30)
    await day.is_interrupted(bob)  # before: it is free

    failed = await world.request("dan", spec=ONLY_ON_DEMAND)
    await until(lambda: len(world.cloud.running()) == 3, "an instance for it")
    [instance_id] = set(world.cloud.running()) - day.waiting.keys() - {carl.instance_id}
    agent = Agent(world, instance_id)
    assert await agent.claim() is not None
    await day.passes(10)
    await agent.event("failed", "no kernel")
    await world.state(failed, LeaseState.ENDED)

    [number] = await submit(world, user="eve")
    run = await executor(world, number, spec=ONLY_ON_DEMAND)
    await day.passes(20)
    await complete(run)
    await until(lambda: run.instance_id not in world.cloud.running(), "the run's end")

    kept = await day.ready("fay", spec=ONLY_ON_DEMAND, after_stop=AfterStop("linger", 900.0))
    await day.passes(20)
    await day.stops(kept)
    await day.passes(30)

    head = await day.ready("gus", spec=ONLY_ON_DEMAND)
    assert head.lease is not None
    cluster = replace(CLUSTER, workers=2, spec=ONLY_ON_DEMAND)
    before = set(world.cloud.running())
    await world.provisioner.clusters.begin(head.lease.lease_id, cluster)
    await until(lambda: len(set(world.cloud.running()) - before) == 2, "workers")
    for instance_id in set(world.cloud.running()) - before:
        worker = Agent(world, instance_id)
        await worker.serve()
        day.busy.append(worker)
    await day.passes(60)
    day.busy = [carl, head]
    world.silence_agents()
    await day.stops(head)
    await until(lambda: len(world.cloud.running()) == 2, "the cluster's end")
    await day.stops(carl)

    began_at = day.now
    hal = await day.takes_place("hal")
    await day.passes(60)
    rises_at = day.now + timedelta(minutes=7)
    day.rises(rises_at)
    await day.passes(90)
    assert await stored(world) == pytest.approx(day.due(), rel=0.01)
    of_hal = day.due_of(hal.instance_id, began_at)
    assert spent(world, "user:hal").usd == pytest.approx(of_hal, rel=0.01)

    # A night without a hub, in which the price falls; the next one has no pool.
    await world.kill()
    day.rises(day.now + timedelta(hours=1), 0.5)
    world.clock.advance(4 * 3600)
    day.waiting.clear()
    await world.start(pool=PoolRules(()))
    await until(lambda: world.cloud.running() == [hal.instance_id], "the pool's end")
    await day.passes(30)
    await day.stops(hal)
    await until(lambda: not world.cloud.running(), "nothing runs")

    assert await stored(world) == pytest.approx(day.due(), rel=0.01)
    found = await costs(world, Dimension.CAUSE)
    assert found.keys() >= {("pool",), ("retention",), ("failed-start",), ("start",)}
    assert ("unassigned",) not in found
    await world.restart()
    assert spent(world, "hub").usd == pytest.approx(day.due(), rel=0.01)


async def test_a_limit_is_exceeded_by_at_most_what_runs_until_a_rise_is_read_and_judged(
    world: World,
) -> None:
    day, limit = Day(world), 0.25
    for pool in POOLS:
        world.cloud.histories[pool] = (PricePoint(day.now - timedelta(days=9), SPOT),)
    limits = Limits(Bounds(usd_per_month=limit), grace_seconds=0.0)
    await world.restart(limits=limits, spending_days=31, price_interval=PRICE_INTERVAL)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    ada = await day.ready("ada", spec=replace(SPEC, markets=(Market.SPOT,)), home_kind="none")
    assert ada.lease is not None
    rises_at = day.now + timedelta(seconds=4300)  # 0.239 USD later
    shown = False
    while (lease := world.now(ada.lease)).state is LeaseState.READY:
        if not shown and day.now >= rises_at:
            shown = True
            day.rises(rises_at)
        seconds = 60 if day.now < rises_at - 2 * MINUTE else 5
        world.clock.advance(seconds)
        await ada.heartbeat()
        await asyncio.sleep(seconds)
    assert lease.stop is not None
    assert lease.stop.reason == "budget"
    latest = MINUTE.total_seconds() + CHECK_INTERVAL + PASS_INTERVAL + CALLS
    assert shown
    assert 0.99 * limit < day.due_of(ada.instance_id) <= limit + 10 * SPOT * latest / 3600

"""What instances without a lease cost the hub: while they run, and when they ended unseen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.ledger.cost import nano_usd
from ec2spawner.core.ledger.cost_rows import CostSum, Dimension
from ec2spawner.provisioner.instances.overhead_period import Period
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.retention.running_costs import INTERVAL
from tests.unit.provisioner.costs import costs, spent
from tests.unit.provisioner.retained import (
    BUSY,
    LINGER,
    STOP,
    again,
    end_in_order,
    kept,
    ready,
)
from tests.unit.provisioner.world import Agent, World, until

LONG = AfterStop("linger", 7200.0)
CAUSE = Dimension.CAUSE
DENIED = CloudError("AccessDenied", "no", retryable=False)


async def retention(world: World) -> float:
    """USD that the ledger has for retained instances."""
    found = await costs(world, CAUSE)
    nothing = CostSum(("",), 0, 0, 0, 0, 0, 0.0)
    return found.get(("retention",), nothing).nano_usd / 1e9


async def ends_unseen(world: World, instance_id: str, after: float) -> None:
    """So many seconds after the hub did, and long before another one lists instances."""
    await world.kill()
    world.clock.advance(after)
    world.cloud.end(instance_id, reason="Client.UserInitiatedShutdown")
    world.cloud.machines[instance_id].hidden = True
    world.clock.advance(7200)


async def forgotten(world: World, instance_id: str) -> None:
    await until(lambda: not world.provisioner._state.retained.holds(instance_id), "forgotten")
    await world.settle()


# --- what ended while no hub ran --------------------------------------------------------------


async def test_a_lingering_instance_that_no_listing_shows_costs_until_its_end(
    priced: World,
) -> None:
    world = priced
    _, agent = await kept(world, LINGER)
    await ends_unseen(world, agent.instance_id, 360)
    await world.start()
    await forgotten(world, agent.instance_id)
    assert await retention(world) == pytest.approx(0.20 / 10, rel=0.01)


async def test_without_metrics_it_costs_as_long_as_it_was_kept(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = priced
    _, agent = await kept(world, LINGER)
    await ends_unseen(world, agent.instance_id, 120)
    world.cloud.fail("ran_until", DENIED, 1)
    await world.start()
    await forgotten(world, agent.instance_id)
    assert await retention(world) == pytest.approx(0.20 / 6, rel=0.01)
    assert agent.instance_id in caplog.text


async def test_a_stopped_instance_that_no_listing_shows_costs_only_what_it_ran(
    priced: World,
) -> None:
    world = priced
    _, idle = await kept(world, STOP, user="bob")
    _, agent = await kept(world, STOP)
    await again(world, STOP)
    await until(lambda: agent.instance_id in world.cloud.running(), "it is started")
    await world.complete_passes(1)
    await world.kill()
    world.cloud.machines[idle.instance_id].hidden = True
    await world.start()
    await forgotten(world, idle.instance_id)
    assert await retention(world) == 0
    await ends_unseen(world, agent.instance_id, 360)
    await world.start()
    await forgotten(world, agent.instance_id)
    assert await retention(world) == pytest.approx(0.526 / 10, rel=0.02)


# --- while it runs ----------------------------------------------------------------------------


async def waits(world: World, agent: Agent, seconds: float) -> None:
    """A lingering instance does, whose agent claims all the time."""
    for _ in range(int(seconds // 60)):
        world.clock.advance(60)
        await agent.claim(wait=0)
    await world.complete_passes(1)


async def test_a_lingering_instance_counts_before_it_ends(priced: World) -> None:
    world = priced
    lease, agent = await kept(world, LONG)
    served = nano_usd(world.now(lease).segments, world.clock()) / 1e9
    for waited in (1200, 2400):
        await world.complete_passes(1)
        await waits(world, agent, 1200)
        stored = await retention(world)
        assert 0.20 * (waited - INTERVAL - 60) <= 3600 * stored <= 0.20 * (waited + 1)
        assert spent(world, "hub").usd == pytest.approx(served + stored, abs=1e-6)
        await world.restart()


async def test_what_was_counted_while_it_waited_is_not_paid_twice(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await ready(world, LONG)
    await agent.heartbeat_often(120)
    await end_in_order(world, lease, agent)
    first = world.now(lease)
    await world.complete_passes(1)
    await waits(world, agent, 600)
    assert await retention(world) > 0
    second = await again(world, LONG)
    world.clock.advance(120)
    await world.complete_passes(1)
    await agent.serve()
    world.clock.advance(600)
    await world.complete_passes(1)
    waited = (second.requested_at - first.segments[-1].end).total_seconds()
    assert await retention(world) == pytest.approx(0.20 * waited / 3600, abs=1e-6)
    ran = (world.clock() - first.segments[0].start).total_seconds()
    assert spent(world, "hub").usd == pytest.approx(0.20 * ran / 3600, abs=1e-6)


async def test_a_kept_instance_that_cannot_be_stopped_counts(priced: World) -> None:
    world = priced
    world.cloud.fail("stop", BUSY, times=1000)
    lease, agent = await ready(world, STOP)
    await end_in_order(world, lease, agent)
    await world.complete_passes(1)
    world.clock.advance(3600)
    await world.complete_passes(2)
    assert world.cloud.stopped() == []
    assert await retention(world) == pytest.approx(0.526, rel=0.01)


# --- an instance that turns out to be free ------------------------------------------------------


async def test_an_interruption_in_the_first_hour_takes_overhead_back(priced: World) -> None:
    world = priced
    _, agent = await kept(world, LONG)
    await world.complete_passes(1)
    await waits(world, agent, 600)
    lease = await again(world, LONG)
    await agent.serve()
    await world.complete_passes(1)
    with_overhead = spent(world, "hub").usd
    overhead = await retention(world)
    assert overhead > 0
    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    found = (await costs(world, CAUSE))["retention",]
    assert (found.nano_usd, found.microseconds) == (0, pytest.approx(600e6, abs=1e6))
    assert spent(world, "hub").usd <= with_overhead - overhead + 1e-6
    hub = spent(world, "hub").usd
    await world.restart()
    await world.complete_passes(1)
    assert spent(world, "hub").usd == pytest.approx(hub, abs=1e-6)
    segments = await world.store.ledger.overhead(lease.requested_at - timedelta(days=1))
    assert {each.usd_per_hour for each in segments} == {0.0}


async def test_a_later_interruption_takes_nothing_back(priced: World) -> None:
    world = priced
    _, agent = await kept(world, LONG)
    await world.complete_passes(1)
    await waits(world, agent, 3660)
    before = await retention(world)
    assert before > 0
    world.cloud.end(agent.instance_id)
    await forgotten(world, agent.instance_id)
    assert await retention(world) >= before


# --- sums -------------------------------------------------------------------------------------


async def test_a_price_that_is_learned_late_makes_the_sum_known_again(priced: World) -> None:
    world = priced
    lease, _ = await world.ready("ada")
    overhead = world.provisioner._retention.overhead
    unknown = replace(world.now(lease).segments[0], usd_per_hour=None, end=world.clock())
    # Of an instance without a lease, whose price would be known.
    start = unknown.start - timedelta(minutes=6)
    unknown = replace(unknown, instance_id="i-boot", instance_type="", start=start)
    before = spent(world, "hub").usd
    await overhead.save(Period("boot", (unknown,)))
    assert spent(world, "hub").usd is None
    await overhead.save(Period("boot", (replace(unknown, usd_per_hour=0.50),)))
    assert spent(world, "hub").usd == pytest.approx(before + 0.05, abs=1e-4)

"""Places of the pool whose instances wait stopped: prepared once, started for a lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from ec2spawner.core.instances.matching import Need, Supply
from ec2spawner.core.instances.retention_rules import Kept
from ec2spawner.core.ledger.cost_rows import HUB, Dimension
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.pool.rules import PoolRules
from ec2spawner.core.pool.words import why
from ec2spawner.core.tags import POOL
from ec2spawner.provisioner.alarms.unused_pool import unused_pool
from ec2spawner.provisioner.instances import demand
from ec2spawner.provisioner.instances.pool_stops import SLOW_BOOT
from ec2spawner.provisioner.instances.supply import supply_of
from ec2spawner.provisioner.launch.controller import STARTED
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.pool.stopped_places import LONGEST_READING, NEVER, StoppedPlaces
from ec2spawner.provisioner.retention.running_costs import INTERVAL
from ec2spawner.provisioner.state.state import State
from ec2spawner.wire import Market
from tests.simulated_cloud import SOLD_OUT
from tests.unit.provisioner.costs import SPOT, costs
from tests.unit.provisioner.pool.pool_world import Pool, begin, name_spec, rules, standing
from tests.unit.provisioner.world import SPEC, Agent, World, until

ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))


def stopped_rules(stopped: int = 1, running: int = 0, **fields: Any) -> PoolRules:
    return rules(running, market=Market.ON_DEMAND, stopped=stopped, **fields)


async def prepared(world: World, stopped: int = 1, running: int = 0, **settings: Any) -> Pool:
    """The pool has booted its instances once, and they wait."""
    await begin(world, stopped_rules(stopped, running), **settings)
    pool = Pool(world)
    await until(lambda: len(world.cloud.running()) == stopped + running, "they are bought")
    for instance_id in world.cloud.running():
        pool.agents[instance_id] = Agent(world, instance_id)
        assert await pool.agents[instance_id].claim(wait=10.0) is None
    await until(lambda: len(world.cloud.stopped()) == stopped, "they are stopped")
    await until(lambda: len(standing(world).stopped) == stopped, "they wait stopped")
    return pool


async def started(world: World, lease: Lease) -> Agent:
    """The instance that was started for the lease has booted, with a new agent."""
    await until(lambda: world.cloud.of("start"), "a start")
    [(instance_id,)] = [call.arguments[0] for call in world.cloud.of("start")]
    await until(lambda: instance_id in world.cloud.running(), "it runs")
    agent = Agent(world, instance_id)
    await agent.serve()
    assert world.now(lease).instance_id == instance_id
    return agent


async def test_it_is_prepared_then_stopped_and_stays(world: World) -> None:
    await prepared(world, 2)
    before = world.cloud.stopped()
    assert not world.cloud.running()
    await world.complete_passes(3)
    assert world.cloud.stopped() == before
    assert len(world.cloud.requests()) <= 2
    assert {request.market for request in world.cloud.requests()} == {Market.ON_DEMAND}


async def test_a_lease_that_would_buy_on_demand_starts_it(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    bought = len(world.cloud.requests())
    lease = await world.request(spec=ON_DEMAND)
    agent = await started(world, lease)
    assert agent.instance_id == instance_id
    assert world.now(lease).state is LeaseState.READY
    said = [event.message for event in world.now(lease).events if event.detail == instance_id]
    assert said[0].startswith(STARTED), "its user sees which one, before it has booted"
    assert not [x for x in world.cloud.requests()[bought:] if POOL not in x.tags]
    assert not world.provisioner._state.retained.holds(instance_id)
    await until(lambda: len(world.cloud.requests()) > bought, "another is prepared")


async def test_running_ones_come_first(world: World) -> None:
    pool = await prepared(world, stopped=1, running=1)
    await world.complete_passes(3)
    [running] = world.cloud.running()
    lease = await world.request(spec=ON_DEMAND)
    await pool.agents[running].serve()
    assert world.now(lease).instance_id == running
    assert not world.cloud.of("start")


async def test_a_lease_that_can_have_spot_buys_it(world: World) -> None:
    await prepared(world)
    lease = await world.request()
    await until(lambda: world.cloud.running(), "spot")
    [instance_id] = world.cloud.running()
    assert world.cloud.machines[instance_id].instance.market is Market.SPOT
    await Agent(world, instance_id).serve()
    assert world.now(lease).state is LeaseState.READY
    assert not world.cloud.of("start")


async def test_it_starts_where_spot_is_sold_out(world: World) -> None:
    await prepared(world)
    world.cloud.sell_out(Market.SPOT)
    for zone in ("us-east-1a", "us-east-1b"):
        world.cloud.capacity[Market.SPOT, "g4dn.xlarge", zone] = 0
    lease = await world.request()
    await started(world, lease)
    assert world.now(lease).state is LeaseState.READY


async def test_without_capacity_for_it_the_lease_buys(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    zone = world.cloud.machines[instance_id].instance.zone
    world.cloud.fail("start", CloudError(SOLD_OUT, "no room", retryable=False))
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: world.cloud.running(), "another one")
    [other] = world.cloud.running()
    assert world.cloud.machines[other].instance.zone != zone
    await Agent(world, other).serve()
    assert world.now(lease).state is LeaseState.READY
    assert world.cloud.stopped() == [instance_id]
    assert len(standing(world).stopped) == 1


async def test_what_a_cancelled_start_has_started_is_stopped_again(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    world.cloud.fail("launch", CloudError("RequestLimitExceeded", "slowly", retryable=True), 999)
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it starts")
    await world.stop(lease)
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "stopped again")
    await until(lambda: len(standing(world).stopped) == 1, "it waits stopped again")
    bought = len(world.cloud.requests())
    await world.complete_passes(2)
    assert (world.cloud.stopped(), len(world.cloud.requests())) == ([instance_id], bought)


async def test_an_outdated_one_is_replaced(world: World) -> None:
    await prepared(world)
    [old] = world.cloud.stopped()
    name_spec(world, image_id="ami-2")
    await until(lambda: old not in world.cloud.stopped(), "the old one ends")
    await until(lambda: world.cloud.running(), "another is prepared")
    [new] = world.cloud.running()
    assert await Agent(world, new).claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [new], "it is stopped")


async def test_a_restart_of_the_hub_keeps_it(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    bought = len(world.cloud.requests())
    await world.restart()
    await world.complete_passes(2)
    name_spec(world)
    await world.complete_passes(3)
    assert world.cloud.stopped() == [instance_id]
    assert len(world.cloud.requests()) == bought
    lease = await world.request(spec=ON_DEMAND)
    await started(world, lease)


async def test_one_that_stops_by_itself_after_its_start_ends_and_the_lease_gets_another(
    world: World,
) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it starts")
    world.clock.advance(5)
    await world.cloud.stop([instance_id])
    await until(lambda: instance_id not in world.cloud.stopped(), "it ends")
    await until(lambda: world.cloud.running(), "another one")
    await Agent(world, world.cloud.running()[0]).serve()
    assert world.now(lease).state is LeaseState.READY


async def test_one_whose_agent_never_calls_again_ends(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it starts")
    await world.complete_passes(2)
    world.clock.advance(SLOW_BOOT + 5)
    await until(lambda: len(world.cloud.running()) == 2, "the lease buys its own")
    world.clock.advance(world.settings.boot_timeout)
    await until(lambda: instance_id not in world.cloud.running(), "it ends")
    assert world.now(lease).instance_id != instance_id


async def test_a_start_without_an_answer_is_followed_by_a_purchase(world: World) -> None:
    await prepared(world)
    lost = CloudError("Timeout", "no answer", retryable=True)
    world.cloud.fail("start", lost, after=True)
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: world.cloud.running(), "an instance")
    agents = [Agent(world, each) for each in world.cloud.running()]
    await agents[0].serve()
    assert world.now(lease).state is LeaseState.READY
    assert world.now(lease).instance_id == agents[0].instance_id


async def test_it_is_not_stopped_while_its_agent_reads_ahead(world: World) -> None:
    await begin(world, stopped_rules())
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim(wait=10.0, reads_ahead=True) is None
    await world.complete_passes(2)
    assert world.cloud.running() == [instance_id]
    assert await agent.claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "it is stopped")


async def test_one_that_reads_ahead_serves_a_lease_at_once(world: World) -> None:
    await begin(world, stopped_rules())
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim(wait=10.0, reads_ahead=True) is None
    lease = await world.request(spec=ON_DEMAND)
    await agent.serve()
    assert world.now(lease).instance_id == instance_id


async def test_the_old_boots_agent_gets_no_lease_and_raises_no_alarm(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    pool = await prepared(world)
    [instance_id] = world.cloud.stopped()
    before = pool.agents[instance_id].claimant()
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it starts")
    old = pool.agents[instance_id]
    assert await world.provisioner._starts.claim(before, old.key, 0.05) is None
    await started(world, lease)
    assert "ALARM" not in caplog.text


async def test_without_the_pool_it_ends(world: World) -> None:
    await prepared(world)
    await world.restart(pool=PoolRules())
    await until(lambda: not world.cloud.stopped(), "it ends")
    assert not world.cloud.running()
    await until(lambda: not [*world.provisioner._state.retained.of_pool()], "it is forgotten")


async def test_a_limit_of_the_hub_that_is_used_up_does_not_end_it(world: World) -> None:
    await prepared(world, 1, running=1)
    [instance_id] = world.cloud.stopped()
    limits = Limits(scopes={HUB: Bounds(usd_per_month=0)})
    await world.restart(pool=stopped_rules(2, running=1), limits=limits, spending_days=31)
    name_spec(world)
    await until(lambda: not world.cloud.running(), "what runs ends")
    await world.complete_passes(3)
    assert world.cloud.stopped() == [instance_id]
    assert len(world.cloud.requests()) == 2
    assert "spending is used up" in why(standing(world).target, UTC)[-1]


async def test_only_its_disk_costs_and_it_is_the_pools(world: World) -> None:
    world.cloud.prices = dict(SPOT)
    await world.restart(pool=stopped_rules())
    name_spec(world, disk_gib=90)
    [instance_id] = await world.boot()
    world.clock.advance(600)
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "it is stopped")
    world.clock.advance(36_000)
    lease = await world.request(spec=replace(ON_DEMAND, disk_gib=90))
    await started(world, lease)
    await until(lambda: len(world.cloud.running()) == 2, "the next one boots")
    await world.complete_passes(1)  # the hub has seen it, too
    world.silence_agents()
    world.clock.advance(3600)
    await world.complete_passes(1)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    found = await costs(world, Dimension.CAUSE, Dimension.RESOURCE)
    usd = {key: round(each.nano_usd / 1e9, 3) for key, each in found.items()}
    waited, served, next_one = 36_600 / 3600, 1, 1  # hours; the next one boots for its place
    assert usd["pool", "disk"] == pytest.approx(0.01 * (waited + next_one), abs=0.002)
    assert usd["pool", "instance"] == pytest.approx(0.526 * (1 / 6 + next_one), abs=0.002)
    # Another one ends as soon as it was bought: EC2 bills a minute of it.
    rest = {key: each for key, each in usd.items() if key[0] not in {"pool", "minimum"}}
    assert sum(rest.values()) == pytest.approx((0.526 + 0.01) * served, abs=0.003), usd


async def test_what_nobody_takes_for_a_day_raises_the_alarm(world: World) -> None:
    await prepared(world)
    world.clock.advance(90_000)
    pool, now = world.provisioner.pool, world.provisioner.now()
    [alarm] = unused_pool(pool, 86_400, now)
    assert world.cloud.stopped()[0] in alarm.body


async def test_files_are_read_ahead_only_where_no_lease_is_about_to_come(world: World) -> None:
    await begin(world, stopped_rules())
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    agent, agents = Agent(world, instance_id), world.provisioner.agents
    assert agents.waits_for_nobody(agent.claimant())
    await agent.claim(wait=10.0, reads_ahead=True)
    await world.request(spec=ON_DEMAND)
    await agent.claim()
    assert not agents.waits_for_nobody(agent.claimant())


async def test_an_agent_that_reads_without_an_end_is_stopped(world: World) -> None:
    await begin(world, stopped_rules())
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim(wait=10.0, reads_ahead=True) is None
    world.clock.advance(LONGEST_READING + 1)
    assert await agent.claim(wait=10.0, reads_ahead=True) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "it is stopped")


async def test_what_starts_wait_for_is_found_once_whatever_is_retained(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(world, stopped_rules(3))
    await until(lambda: len(world.cloud.running()) == 3, "they boot")
    agents = [Agent(world, each) for each in world.cloud.running()]
    for agent in agents:
        assert await agent.claim(wait=10.0, reads_ahead=True) is None
    await world.complete_passes(1)
    state, compared, asked, needs = world.provisioner._state, 0, 0, demand.needs
    instance_id = agents[0].instance_id

    def count_comparison(*arguments: Any) -> Supply:
        nonlocal compared
        compared += 1
        return supply_of(*arguments)

    def count_needs(of: State) -> list[Need]:
        nonlocal asked
        asked += 1
        return needs(of)

    async with world.no_pass:
        for number in range(30):
            await world.request(f"user-{number}", spec=replace(ON_DEMAND, image_id="ami-9"))
        now = world.clock()
        kept = Kept(instance_id, "", "", "lease-1", "t4", "", "stop", "", now, now + NEVER, now, 0)
        of_users = [replace(kept, user=f"user-{number}") for number in range(20)]
        monkeypatch.setattr(state.retained, "of_users", lambda: iter(of_users))
        monkeypatch.setattr(demand, "supply_of", count_comparison)
        monkeypatch.setattr(demand, "needs", count_needs)
        retention = world.provisioner._retention
        await StoppedPlaces(state, retention.overhead, retention.offers).reconcile(now)
    assert asked == 1
    assert compared == len(of_users)


async def test_one_is_not_stopped_while_a_start_waits_that_it_serves(world: World) -> None:
    await begin(world, stopped_rules())
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim(wait=10.0, reads_ahead=True) is None
    await world.complete_passes(1)
    state = world.provisioner._state
    async with world.no_pass:  # the agent has called, and does not have the lease yet
        lease = await world.request(spec=ON_DEMAND)
        state.claims.heard(instance_id)
        retention = world.provisioner._retention
        places = StoppedPlaces(state, retention.overhead, retention.offers)
        await places.reconcile(world.clock())
        assert not state.retained.holds(instance_id)
    assert world.now(lease).state is LeaseState.WAITING


async def test_one_that_ended_while_no_hub_ran_is_charged_for_what_is_known(world: World) -> None:
    world.cloud.prices = dict(SPOT)
    await world.restart(pool=stopped_rules())
    name_spec(world, disk_gib=90)
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "it is stopped")
    world.cloud.fail("launch", CloudError("Throttling", "slowly", retryable=True), 999)
    lease = await world.request(spec=replace(ON_DEMAND, disk_gib=90))
    await until(lambda: instance_id in world.cloud.running(), "it is started")
    await world.complete_passes(2)
    await world.stop(lease)
    world.clock.advance(INTERVAL + 5)
    await world.complete_passes(3)  # its cost so far is stored
    await world.kill()
    del world.cloud.machines[instance_id]
    world.clock.advance(30 * 86_400)
    world.cloud.fail("ran_until", CloudError("AccessDenied", "no metrics", retryable=False), 9)
    await world.start(pool=PoolRules())
    retained = world.provisioner._state.retained
    await until(lambda: not [*retained.of_pool()], "it is forgotten")
    found = await costs(world, Dimension.CAUSE, Dimension.RESOURCE)
    usd = {key: each.nano_usd / 1e9 for key, each in found.items() if each.nano_usd}
    assert sum(usd.values()) < 1.0, usd

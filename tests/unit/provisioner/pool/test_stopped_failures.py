"""Stopped places of the pool: instances that EC2 does not stop, or that do not boot again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ec2spawner.core.pool.rules import PoolRules
from ec2spawner.core.tags import POOL
from ec2spawner.provisioner.instances.pool_stops import SLOW_BOOT
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.state.instances.pool_holds import LONGEST_HOLD
from ec2spawner.provisioner.state.instances.pool_starts import PAUSE
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import begin, rules, standing
from tests.unit.provisioner.world import SPEC, Agent, World, until

ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))
DENIED = CloudError("UnauthorizedOperation", "no ec2:StopInstances", retryable=False)


async def waiting(world: World, stopped: int) -> None:
    """The pool's instances have booted, and their agents wait: they are stopped now."""
    await begin(world, rules(0, market=Market.ON_DEMAND, stopped=stopped))
    await until(lambda: len(world.cloud.running()) == stopped, "they are bought")
    for instance_id in world.cloud.running():
        assert await Agent(world, instance_id).claim(wait=10.0) is None


async def prepared(world: World, stopped: int = 1) -> None:
    await waiting(world, stopped)
    await until(lambda: len(standing(world).startable) == stopped, "they wait stopped")


def bought_for_leases(world: World) -> int:
    return sum(POOL not in each.tags for each in world.cloud.requests())


async def test_where_ec2_refuses_to_stop_them_none_is_bought_without_end(world: World) -> None:
    world.cloud.fail("stop", DENIED, 999)
    await waiting(world, 1)
    await until(lambda: not world.cloud.running(), "it ends")
    for _ in range(3):  # the pauses of other failures of the pool are over
        world.clock.advance(40)
        await world.complete_passes(2)
    assert len(world.cloud.requests()) == 1
    failure = standing(world).failure
    assert failure
    assert "EC2 refuses to stop it" in failure.message
    assert standing(world).retry_seconds > 0
    world.cloud._faults["stop"].clear()
    world.clock.advance(standing(world).retry_seconds + 1)
    await until(world.cloud.running, "another is tried")
    [instance_id] = world.cloud.running()
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await until(lambda: world.cloud.stopped() == [instance_id], "it is stopped")
    await until(lambda: not standing(world).failure, "nothing is held up any more")


async def test_the_pause_grows_with_each_refused_stop(world: World) -> None:
    world.cloud.fail("stop", DENIED, 999)
    await waiting(world, 1)
    pauses = []
    for number in range(1, 5):
        await until(lambda: standing(world).failure, "a failure")
        pauses.append(standing(world).retry_seconds)
        await until(lambda: not world.cloud.running(), "it ends")
        world.clock.advance(pauses[-1] + 1)
        await until(world.cloud.running, "another is tried")
        assert len(world.cloud.requests()) == number + 1
        [instance_id] = world.cloud.running()
        assert await Agent(world, instance_id).claim(wait=10.0) is None
    assert pauses[-1] > pauses[0]
    assert max(pauses) <= LONGEST_HOLD


async def test_one_that_ec2_does_not_start_is_tried_again_after_a_pause(world: World) -> None:
    await prepared(world)
    world.cloud.fail("start", CloudError("InternalError", "try again", retryable=True))
    await world.request(spec=ON_DEMAND)
    await until(lambda: bought_for_leases(world), "it buys")
    assert len(world.cloud.of("start")) == 1
    world.clock.advance(PAUSE + 1)
    await world.request("bob", spec=ON_DEMAND)
    await until(lambda: not world.cloud.stopped(), "it starts")
    assert bought_for_leases(world) == 1


async def test_a_start_tries_one_that_does_not_come_up_and_then_buys(world: World) -> None:
    await prepared(world, 2)
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: world.cloud.of("start"), "one starts")
    await world.complete_passes(2)
    world.clock.advance(SLOW_BOOT + 5)
    await until(lambda: bought_for_leases(world), "it buys")
    assert len(world.cloud.of("start")) == 1
    [bought] = [each for each in world.cloud.running() if POOL not in world.cloud.tags(each)]
    await Agent(world, bought).serve()
    assert world.now(lease).state is LeaseState.READY


async def test_after_one_that_did_not_come_up_starts_buy_for_a_while(world: World) -> None:
    await prepared(world, 2)
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: world.cloud.of("start"), "one starts")
    await world.complete_passes(2)
    await world.stop(lease)
    world.clock.advance(world.settings.boot_timeout + 5)
    await until(lambda: not world.cloud.running(), "it ends")
    await world.request("bob", spec=ON_DEMAND)
    await until(lambda: bought_for_leases(world), "it buys")
    assert len(world.cloud.of("start")) == 1
    failure = standing(world).failure
    assert failure
    assert "its agent has not called" in failure.message


async def test_one_whose_start_ec2_undoes_for_lack_of_capacity_waits_on(world: World) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    zone = world.cloud.machines[instance_id].instance.zone
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it starts")
    await world.complete_passes(1)
    machine = world.cloud.machines[instance_id]
    machine.instance = replace(machine.instance, launched_at=world.clock() + timedelta(seconds=1))
    machine.ended = InstanceState.STOPPED
    machine.ended_reason = "Server.InsufficientInstanceCapacity"
    await until(lambda: len(standing(world).startable) == 1, "it waits stopped again")
    marked = world.provisioner.market.offers.marked(ON_DEMAND)
    assert [offer.zone for offer, mark in marked if mark] == [zone]
    [other] = world.cloud.running()  # what the pool bought in its place
    await Agent(world, other).serve()
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert world.cloud.stopped() == [instance_id]
    assert not standing(world).failure


async def test_one_that_ended_while_no_hub_ran_is_accounted_once_however_long_that_takes(
    world: World,
) -> None:
    await prepared(world)
    [instance_id] = world.cloud.stopped()
    world.cloud.fail("launch", CloudError("Throttling", "slowly", retryable=True), 999)
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it is started")
    await world.complete_passes(2)
    await world.stop(lease)
    await world.kill()
    del world.cloud.machines[instance_id]
    world.clock.advance(3600)
    gate = world.cloud.hold("ran_until")
    await world.start(pool=PoolRules())
    await until(lambda: world.cloud.of("ran_until"), "its metrics are read")
    await world.watch_passes(3)
    assert len(world.cloud.of("ran_until")) == 1
    gate.set()
    retained = world.provisioner._state.retained
    await until(lambda: not [*retained.of_pool()], "it is forgotten")

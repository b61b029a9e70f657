"""An instance that EC2 reclaims in its first hour is free, if nobody else terminates it."""

from __future__ import annotations

from ec2spawner.provisioner.lifecycle.termination import LEFT_TO_EC2
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.lifecycle.test_continuation import HOME, RESUME, leaves, successor
from tests.unit.provisioner.world import World, until


async def test_what_ec2_reclaims_in_the_first_hour_is_left_to_it(priced: World) -> None:
    world = priced
    lease, agent = await world.ready(**HOME)
    await agent.heartbeat_often(1800.0)
    other = await leaves(world, lease, agent)

    assert other.home_is_here(), "nobody waits for EC2"
    await world.watch_passes(2)
    assert set(world.cloud.running()) == {agent.instance_id, other.instance_id}
    assert world.now(lease).state is LeaseState.ENDING
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    ended = await world.state(lease, LeaseState.ENDED)
    assert [x.usd_per_hour for x in ended.segments] == [0.0]
    assert world.cloud.of("terminate") == []


async def test_what_has_run_for_an_hour_is_terminated_at_once(priced: World) -> None:
    world = priced
    lease, agent = await world.ready(sleep=RESUME)
    await agent.heartbeat_often(3550.0)
    other = await leaves(world, lease, agent)
    ended = await world.state(lease, LeaseState.ENDED)
    assert [x.usd_per_hour for x in ended.segments] == [0.2]
    await until(lambda: world.cloud.running() == [other.instance_id], "the old one ended")


async def test_what_ec2_does_not_take_back_after_all_is_terminated(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    other = await leaves(world, lease, agent)
    world.clock.advance(LEFT_TO_EC2 + 1)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [other.instance_id], "the old one ended")


async def test_nothing_is_left_to_ec2_once_the_server_is_stopped(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    other = await leaves(world, lease, agent)
    await world.stop(successor(world, lease))
    await other.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [], "no instance is left")


async def test_an_instance_with_a_home_in_use_is_terminated_at_once(priced: World) -> None:
    """The server that continues waits for the home."""
    world = priced
    lease, agent = await world.ready(**HOME)
    await agent.heartbeat_often(1800.0)
    await leaves(world, lease, agent, home_released=False)
    assert agent.instance_id not in world.cloud.running()
    assert world.cloud.of("detach_volume") == []

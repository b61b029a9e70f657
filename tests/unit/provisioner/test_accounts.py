"""What a lease pays for when its instances change under it."""

from __future__ import annotations

from datetime import timedelta

from world import Agent, World

from ec2spawner.provisioner.lease import LeaseState


async def test_a_lease_never_pays_for_two_instances_at_once(world: World) -> None:
    """It lost one and gets another that was booting for somebody else meanwhile."""
    ada = await world.request("ada")
    await world.request("bob")
    first, second = await world.boot(2)
    begun = world.clock()
    await Agent(world, first).claim()
    world.clock.advance(60)
    world.cloud.hold("launch")
    world.cloud.end(first)
    await world.state(ada, LeaseState.WAITING)
    world.clock.advance(5)
    await Agent(world, second).claim()
    lost, current = (await world.state(ada, LeaseState.STARTING)).segments
    assert current.instance_id == second
    assert lost.end == begun + timedelta(seconds=60)
    assert current.start == lost.end
    overhead = await world.store.overhead(begun - timedelta(days=1))
    assert [(x.instance_id, x.end) for x in overhead] == [(second, current.start)]

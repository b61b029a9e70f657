"""What a lease pays for when its instances change under it."""

from __future__ import annotations

from datetime import timedelta

from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.world import Agent, World, until


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
    stored = f"ec2spawner overhead of {second}"
    await until(lambda: stored not in world.provisioner._tasks.names(), "the overhead is stored")
    overhead = await world.store.ledger.overhead(begun - timedelta(days=1))
    assert [(x.instance_id, x.end) for x in overhead] == [(second, current.start)]


async def test_cost_of_a_lease_is_no_overhead_even_after_a_restart(world: World) -> None:
    """The hub dies between the end of a lease and the end of its instance."""
    world.silence_agents()
    begun = world.clock()
    lease, _ = await world.ready()
    world.clock.advance(600)
    world.cloud.hold("terminate")
    await world.stop(lease)
    await until(lambda: world.cloud.of("terminate"), "the call that is never answered")
    await world.kill()
    paid_until = world.clock()
    ended = f"ended_at = '{paid_until:%Y-%m-%d %H:%M:%S.%f}'"
    world.run_sql(f"UPDATE lease SET state = 'ended', {ended}")
    world.run_sql(f"UPDATE segment SET {ended}")
    world.clock.advance(60)
    await world.start(recovery_grace=0.0)
    await until(lambda: not world.cloud.running(), "the end of the instance")
    await world.complete_passes(1)
    [overhead] = await world.store.ledger.overhead(begun - timedelta(days=1))
    assert overhead.start == paid_until


async def test_a_hub_killed_during_a_termination_has_stored_the_cost(world: World) -> None:
    lease = await world.request()
    await world.boot()
    await world.complete_passes(1)
    world.clock.advance(300)
    world.cloud.hold("terminate", after=True)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end, which the hub does not see")
    await until(lambda: not world.store.write_behind._writes, "what is written meanwhile")
    await world.restart()
    await world.complete_passes(2)
    [overhead] = await world.store.ledger.overhead(lease.requested_at - timedelta(days=1))
    assert overhead.end is not None
    assert (overhead.end - overhead.start).total_seconds() >= 300

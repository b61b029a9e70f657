"""Instances that somebody launched with the tags of ours, as the console's `launch more` does."""

from __future__ import annotations

from ec2spawner.provisioner.model.lease import LeaseState
from tests.unit.provisioner.world import World


async def test_a_copy_of_an_old_server_is_ignored_after_a_restart(world: World) -> None:
    """The call that brought the server is older than what a hub reads when it starts."""
    lease, agent = await world.ready()
    await world.complete_passes(1)
    copied = world.cloud.copy(agent.instance_id)
    await agent.heartbeat_often(2 * 3600, every=200)
    await world.restart()
    world.provisioner._recovery.take_up("ada", "", lease.lease_id)
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id, copied]
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert world.cloud.running() == [copied]

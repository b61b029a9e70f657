"""Instances that somebody launched with the tags of ours, as the console's `launch more` does."""

from __future__ import annotations

import asyncio

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.tags import STORE
from ec2spawner.provisioner.instances.unleased import segments_beside_starts, unleased_segments
from ec2spawner.provisioner.model.leases.lease import LeaseState
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


async def test_what_is_not_ours_is_shown_and_counts_nowhere(world: World) -> None:
    """Neither limits nor pages may count what the ledger never books."""
    _, agent = await world.ready()
    copied = world.cloud.copy(agent.instance_id)
    await world.cloud.tag([world.cloud.copy(agent.instance_id)], {STORE: "0123456789abcdef"})
    await world.complete_passes(2)
    overview, now = world.provisioner.overview, world.clock()
    seen = {each.instance.instance_id: each.status for each in overview.unassigned()}
    assert seen[copied] == "foreign"
    assert list(seen.values()) == ["foreign", "foreign"]
    state, prices = world.provisioner._state, world.provisioner.market.prices
    assert list(unleased_segments(state, prices, now)) == []
    assert list(segments_beside_starts(state, prices, now)) == []


async def test_what_is_kept_is_ours_whatever_its_tags_say(world: World) -> None:
    """The store's own record proves it: the hub pays for it, and lists it once."""
    lease, agent = await world.ready(after_stop=AfterStop("linger", 600.0))
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)
    await world.cloud.tag([agent.instance_id], {STORE: "0123456789abcdef"})
    await world.watch_passes(1)
    await world.complete_passes(2)
    overview, now = world.provisioner.overview, world.clock()
    assert [each.kept.instance_id for each in overview.kept()] == [agent.instance_id]
    assert overview.unassigned() == ()
    state, prices = world.provisioner._state, world.provisioner.market.prices
    counted = [segments_beside_starts(state, prices, now), unleased_segments(state, prices, now)]
    assert [[x.instance_id for x in each] for each in counted] == [[agent.instance_id]] * 2

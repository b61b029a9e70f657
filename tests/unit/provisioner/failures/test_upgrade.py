"""The first hub of this version finds the store of the first released one, and servers that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.core.tags import HOME, HUB, LEASE, STORE
from ec2spawner.provisioner.model.cloud.volume import VolumeSpec
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.store.store import Store
from tests.stored import write_schema_0001
from tests.unit.provisioner.world import Agent, World, until


async def as_it_was(world: World, *, launched: bool = False) -> tuple[str, str, str]:
    """The instances that the earlier hub launched, of which one runs, and its home; `launched`: so
    does that of the call without an answer."""
    url = f"sqlite:///{world.folder / world.database}"
    write_schema_0001(url)
    store = await Store.open(url, now=world.clock())
    loaded = await store.load()
    await store.close()
    write_schema_0001(url.replace("store.sqlite", "first.sqlite"))
    world.database = "first.sqlite"
    [home], cloud = loaded.homes, world.cloud
    bobs, adas, eves = loaded.intents
    for intent in (bobs, adas):
        await cloud.launch(intent.request)
    cloud.end(bobs.instance_ids[0])
    tags = {HUB: "hub", STORE: store.store_id, HOME: home.home_id}
    volume = await cloud.create_volume(home.home_id, "us-east-1a", VolumeSpec(20), tags)
    [instance_id] = adas.instance_ids
    assert (volume.volume_id, instance_id) == (home.volume_id, cloud.running()[0])
    await cloud.attach_volume(volume.volume_id, instance_id)
    await cloud.tag([instance_id], {LEASE: loaded.leases[0].lease_id})
    if launched:
        await cloud.launch(eves.request)
    cloud.calls.clear()
    return instance_id, volume.volume_id, eves.client_token


async def test_a_running_server_continues_and_ends_cleanly(tmp_path: Path) -> None:
    world = World(tmp_path)
    instance_id, volume_id, unanswered = await as_it_was(world)
    world.clock.advance(30)
    await world.start()
    try:
        lease = world.provisioner._recovery.take_up("ada", "", "")
        assert lease is not None
        agent = Agent(world, instance_id)
        agent.lease = lease
        assert (await agent.heartbeat()).stop is None
        await until(lambda: len(world.cloud.running()) == 2, "the launch that had no answer")
        await world.complete_passes(2)
        assert world.now(lease).state is LeaseState.READY
        [for_eve] = set(world.cloud.running()) - {instance_id}
        await Agent(world, for_eve).serve()

        await world.restart()
        assert world.provisioner._recovery.take_up("ada", "", "") == world.now(lease)
        await world.stop(lease)
        await agent.event("stopped")
        ended = await world.state(lease, LeaseState.ENDED)
        assert [segment.end for segment in ended.segments] == [ended.ended_at]
        assert world.cloud.running() == [for_eve]
        assert world.cloud.volumes[volume_id].attached_to is None
        assert [request.client_token for request in world.cloud.requests()] == [unanswered]
    finally:
        await world.kill()


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_server_that_ended_during_the_upgrade_has_disks_of_known_cost(
    tmp_path: Path, is_listed: bool
) -> None:
    """Its version did not know what disks cost."""
    world = World(tmp_path)
    world.cloud.gives_public_addresses = True
    # The address of an ended instance is priced as those of others that a listing shows.
    instance_id, _, _ = await as_it_was(world, launched=True)
    world.clock.advance(30)
    world.cloud.end(instance_id, reason="Client.UserInitiatedShutdown")
    world.cloud.machines[instance_id].hidden = not is_listed
    await world.start()
    try:
        lease = world.provisioner._recovery.take_up("ada", "", "")
        assert lease is not None
        assert lease.segments[0].disk_usd_per_month is None
        ended = await world.state(lease, LeaseState.ENDED)
        [segment] = ended.segments
        assert segment.disk_usd_per_month == pytest.approx(100 * 0.08)
        assert segment.address_usd_per_hour == 0.005
    finally:
        await world.kill()

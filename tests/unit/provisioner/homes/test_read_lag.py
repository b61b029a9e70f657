"""For seconds after its creation, EC2's calls may or may not know a resource."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.world import Agent, World, until

pytestmark = pytest.mark.asyncio


async def listings(world: World, number: int) -> None:
    cache = world.provisioner._state.instances
    seen = cache.listings
    await until(lambda: cache.listings > seen + number)


async def test_an_instance_that_a_later_listing_lacks_is_not_bought_again(world: World) -> None:
    await world.request()
    [instance_id] = await world.boot()
    await until(lambda: instance_id in world.provisioner._state.instances.listed)
    world.cloud.machines[instance_id].hidden = True
    await listings(world, 5)
    await world.watch_passes(3)
    assert len(world.cloud.requests()) == 1
    world.cloud.machines[instance_id].hidden = False
    await world.watch_passes(3)
    assert world.cloud.running() == [instance_id]


async def test_a_server_on_a_new_instance_that_listings_lack_is_not_lost(world: World) -> None:
    await world.restart(listing_lag=60.0)
    lease, agent = await world.ready()
    world.cloud.machines[agent.instance_id].hidden = True
    await listings(world, 3 * world.settings.missing_listings)
    await world.watch_passes(3)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(60)
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message) == ("lost", "EC2 no longer lists the instance")


@pytest.mark.parametrize("code", ["InvalidVolume.NotFound", "InvalidInstanceID.NotFound"])
async def test_an_attachment_waits_until_ec2_knows_volume_and_instance(
    world: World, code: str
) -> None:
    unknown = CloudError(code, "does not exist", retryable=False)
    world.cloud.fail("attach_volume", unknown, times=3)
    lease, _ = await world.ready(home_kind="ebs")
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.of("attach_volume")) == 4


async def test_a_volume_is_attached_once_ec2_has_created_it(world: World) -> None:
    world.cloud.creating_reads = 3
    lease, _ = await world.ready(home_kind="ebs")
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.of("volume")) == 4
    assert len(world.cloud.of("attach_volume")) == 1, "a refused one has cost a token as well"


async def test_a_volume_that_ec2_never_creates_fails_its_start(world: World) -> None:
    world.cloud.creating_reads = 1_000_000
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    stop = await world.stop_of(lease)
    assert "is still being created" in stop.message
    assert not world.cloud.of("attach_volume")

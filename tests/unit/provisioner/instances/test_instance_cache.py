"""The listing: a failure keeps what was known, and is known itself."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ec2spawner.provisioner.instances.listing import Listing
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import World


async def test_why_the_last_listing_failed_is_known_until_one_completes(world: World) -> None:
    await world.provisioner._tasks.end()
    instances = world.provisioner._state.instances
    listing = Listing(world.provisioner._state, world.cloud)
    await listing.list_once()
    before, listings = instances.listed, instances.listings
    refused = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    world.cloud.fail("list_instances", refused)
    await listing.list_once()
    assert instances.failure is refused
    assert instances.listed is before
    assert instances.listings == listings
    await listing.list_once()
    assert instances.failure is None


def launched(at: datetime) -> Instance:
    return Instance("i-1", InstanceState.RUNNING, "g4dn.xlarge", "us-east-1a", Market.SPOT, at)


@pytest.mark.parametrize("ec2_is_behind", [0, 120, -120])
async def test_an_instance_that_one_listing_showed_is_not_gone_while_others_lag(
    world: World, ec2_is_behind: int
) -> None:
    """Also if that listing came before anything was to be known of the instance, and if EC2's
    clock differs from the hub's."""
    await world.restart(listing_lag=60.0, busy_interval=0.0)
    await world.provisioner._tasks.end()
    instances = world.provisioner._state.instances
    instances.replace([launched(world.clock() - timedelta(seconds=ec2_is_behind))])
    instances.replace([])
    instances.track(["i-1"])
    for _ in range(world.settings.missing_listings):
        instances.replace([])
    assert not instances.is_gone("i-1")
    world.clock.advance(61)
    for _ in range(world.settings.missing_listings):
        instances.replace([])
    assert instances.is_gone("i-1")


async def test_an_instance_of_long_ago_is_not_new_to_a_restarted_hub(world: World) -> None:
    await world.restart(listing_lag=60.0, busy_interval=0.0)
    await world.provisioner._tasks.end()
    instances = world.provisioner._state.instances
    instances.replace([launched(world.clock() - timedelta(hours=1))])
    instances.track(["i-1"])
    for _ in range(world.settings.missing_listings):
        instances.replace([])
    assert instances.is_gone("i-1")

"""The listing: a failure keeps what was known, and is known itself."""

from __future__ import annotations

from ec2spawner.provisioner.instances.listing import Listing
from ec2spawner.provisioner.model.cloud import CloudError
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

"""The listing: a failure keeps what was known, and is known itself."""

from __future__ import annotations

from ec2spawner.provisioner.model.cloud import CloudError
from ec2spawner.provisioner.state.instance_cache import InstanceCache
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.unit.provisioner.world import SETTINGS


async def test_why_the_last_listing_failed_is_known_until_one_completes() -> None:
    cloud = SimulatedCloud(Clock())
    instance_cache = InstanceCache(cloud, SETTINGS, in_motion=lambda: False, listed=lambda: None)
    await instance_cache.list_once()
    before = instance_cache.instances
    refused = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    cloud.fail("list_instances", refused)
    await instance_cache.list_once()
    assert instance_cache.failure is refused
    assert instance_cache.instances is before
    assert instance_cache.listings == 1
    await instance_cache.list_once()
    assert instance_cache.failure is None

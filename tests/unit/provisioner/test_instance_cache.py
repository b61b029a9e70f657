"""The listing: a failure keeps what was known, and is known itself."""

from __future__ import annotations

from ec2spawner.provisioner.model.cloud import CloudError
from ec2spawner.provisioner.state.instance_cache import Watcher
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.unit.provisioner.world import SETTINGS


async def test_why_the_last_listing_failed_is_known_until_one_completes() -> None:
    cloud = SimulatedCloud(Clock())
    watcher = Watcher(cloud, SETTINGS, in_motion=lambda: False, listed=lambda: None)
    await watcher.list_once()
    before = watcher.instances
    refused = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    cloud.fail("list_instances", refused)
    await watcher.list_once()
    assert watcher.failure is refused
    assert watcher.instances is before
    assert watcher.listings == 1
    await watcher.list_once()
    assert watcher.failure is None

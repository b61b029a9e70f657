"""The image that servers boot: looked up once a day, shared by starts, never lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image, ImageQuery
from ec2spawner.provisioner.offers import images as images_module
from ec2spawner.provisioner.offers.images import ImageCache
from tests.bare_state import bare_state
from tests.simulated_cloud import Clock, SimulatedCloud
from tests.unit.provisioner.world import SETTINGS, until

HOUR = 3600.0
OLD, NEW = Image("ami-old", "lab-1"), Image("ami-new", "lab-2")
THROTTLE = CloudError("RequestLimitExceeded", "slow down", retryable=True)


@pytest.fixture
def cloud() -> SimulatedCloud:
    cloud = SimulatedCloud(Clock())
    cloud.images = {OLD.image_id: OLD}
    return cloud


@pytest.fixture
def images(cloud: SimulatedCloud) -> ImageCache:
    settings = replace(SETTINGS, image=ImageQuery(name="lab-*", owners=("self",)))
    return ImageCache(bare_state(settings, cloud.clock), cloud)


def asked(cloud: SimulatedCloud) -> int:
    return len(cloud.of("find_image"))


async def test_concurrent_starts_share_one_lookup(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    assert images.known is None
    assert await asyncio.gather(*(images.current() for _ in range(20))) == [OLD] * 20
    assert asked(cloud) == 1
    assert cloud.of("find_image")[0].arguments == (ImageQuery(name="lab-*", owners=("self",)),)
    assert images.known == OLD


async def test_the_image_lookup_is_repeated_after_a_day(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    await images.current()
    cloud.images[NEW.image_id] = NEW
    cloud.clock.advance(23 * HOUR)
    assert await images.current() == OLD
    cloud.clock.advance(HOUR)
    assert await images.current() == NEW
    assert asked(cloud) == 2


async def test_a_cached_image_is_used_after_a_failed_lookup_without_retrying_at_each_start(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    await images.current()
    cloud.images[NEW.image_id] = NEW
    cloud.clock.advance(25 * HOUR)
    cloud.fail("find_image", THROTTLE)
    assert await images.current() == OLD
    assert await images.current() == OLD
    assert asked(cloud) == 2
    cloud.clock.advance(images_module.RETRY_AFTER.total_seconds())
    assert await images.current() == NEW


async def test_a_cached_image_is_used_while_a_lookup_hangs(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    await images.current()
    cloud.images[NEW.image_id] = NEW
    cloud.clock.advance(25 * HOUR)
    answered = cloud.hold("find_image")
    assert await images.current() == OLD
    assert await images.current() == OLD
    assert asked(cloud) == 2, "one look-up is under way already"
    answered.set()
    await until(lambda: images.known == NEW)
    assert await images.current() == NEW


async def test_without_a_cached_image_each_start_gets_the_error_and_the_next_retries(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    cloud.images.clear()
    errors = await asyncio.gather(*(images.current() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in errors] == [CloudError] * 3
    assert asked(cloud) == 1
    cloud.images[NEW.image_id] = NEW
    assert await images.current() == NEW


async def test_a_cancelled_start_does_not_cancel_the_lookup(
    cloud: SimulatedCloud, images: ImageCache
) -> None:
    answered = cloud.hold("find_image")
    first, second = (asyncio.create_task(images.current()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    answered.set()
    assert await second == OLD
    assert asked(cloud) == 1


async def test_closing_ends_a_lookup_in_progress(cloud: SimulatedCloud, images: ImageCache) -> None:
    cloud.hold("find_image")
    start = asyncio.create_task(images.current())
    await asyncio.sleep(0)
    await images.close()
    [outcome] = await asyncio.gather(start, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
    assert images.known is None


async def test_a_missing_image_is_read_again(cloud: SimulatedCloud, images: ImageCache) -> None:
    await images.current()
    cloud.images[NEW.image_id] = NEW
    images.doubt("ami-another")
    assert await images.current() == OLD
    images.doubt("ami-old")
    assert await images.current() == NEW

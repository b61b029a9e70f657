"""A root disk that is smaller than the image's is refused when the hub starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ec2spawner.config import ConfigError, small_disks, validate_options
from ec2spawner.config.options import Options
from ec2spawner.hub import startup
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image
from tests.unit.provisioner.world import World

IMAGE = Image("ami-9", name="Deep Learning", root_gib=75)
SMALL = {"display_name": "Small", "gpu": "T4", "disk_gib": 60}
LARGE = {"display_name": "Large", "gpu": "T4", "disk_gib": 75}
PLAIN = {"display_name": "Plain", "gpu": "T4"}


def options_with(*profiles: dict[str, Any], **changes: Any) -> Options:
    raw = {"region": "us-east-1", "subnets": ["subnet-a"], "profile_list": profiles or (PLAIN,)}
    return validate_options(raw | changes, cleanup_servers=False, environ={})


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (options_with(disk_gib=74), ["c.EC2Spawner.disk_gib"]),
        (options_with(disk_gib=75), []),
        (options_with(LARGE, disk_gib=50), []),
        (options_with(LARGE, SMALL), ['c.EC2Spawner.profile_list[1].disk_gib ("Small")']),
        (
            options_with(SMALL, PLAIN, disk_gib=8),
            ["c.EC2Spawner.disk_gib", 'c.EC2Spawner.profile_list[0].disk_gib ("Small")'],
        ),
        (options_with(profile_list=lambda spawner: []), []),
        (
            options_with(profile_list=lambda spawner: [], disk_gib=20),
            ["c.EC2Spawner.disk_gib"],
        ),
    ],
    ids=["hub", "enough", "unused", "profile", "both", "function", "small-for-function"],
)
def test_each_size_that_servers_use_is_compared(options: Options, refused: list[str]) -> None:
    assert [problem.option for problem in small_disks(options, IMAGE)] == refused
    assert small_disks(options, Image("ami-1")) == (), "an image that does not say its size"


async def test_the_hub_refuses_to_start_and_names_setting_and_fix(world: World) -> None:
    world.cloud.images = {"ami-9": IMAGE}
    with pytest.raises(ConfigError) as refused:
        await startup.refuse_small_disks(world.provisioner, options_with(disk_gib=50))
    message = str(refused.value)
    for word in ("c.EC2Spawner.disk_gib", "50 GiB", "75 GiB", "ami-9", "write 75 or more"):
        assert word in message
    await startup.refuse_small_disks(world.provisioner, options_with())


async def test_an_unknown_image_does_not_stop_the_hub(
    world: World,
) -> None:
    world.cloud.fail("find_image", CloudError("Unavailable", "later", retryable=True))
    await startup.refuse_small_disks(world.provisioner, options_with(disk_gib=50))
    world.cloud.hold("find_image")
    await asyncio.wait_for(
        startup.refuse_small_disks(world.provisioner, options_with(disk_gib=50)), 60
    )

"""What a user is offered whose home prevents a start: it is elsewhere, or was deleted in EC2."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from ec2spawner.config import Profile, validate_options
from ec2spawner.hub.failure.home_actions import move_actions, replacement_actions
from ec2spawner.wire import Market
from tests.unit.provisioner.homes.test_home_snapshots import scan, stopped_with_copies
from tests.unit.provisioner.world import Agent, World

pytestmark = pytest.mark.virtual_time


async def offered(world: World, profile: Profile) -> list[tuple[str, dict[str, str]]]:
    """To ada: the label and the options of each start."""
    home = world.provisioner.homes.of("ada", "")
    chosen = {"profile": "t4", "disk_gib": "200", "move_home": "us-east-1b"}
    found = replacement_actions(world.provisioner, home, profile, chosen)
    return [(each.label, dict(each.user_options)) for each in found]


async def start_without_volume(world: World) -> None:
    """A start of ada's that finds no volume."""
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    await world.stop_of(lease)
    await world.complete_passes(1)


async def test_a_deleted_home_can_be_replaced_by_its_newest_snapshot_or_an_empty_one(
    world: World, profile: Profile
) -> None:
    volume_id = await stopped_with_copies(world)
    await scan(world, 1000)  # the snapshot is complete
    assert await offered(world, profile) == []
    del world.cloud.volumes[volume_id]
    await start_without_volume(world)
    [snapshot] = world.cloud.snapshots.values()
    same = {"profile": "t4", "disk_gib": "200"}
    assert await offered(world, profile) == [
        (
            f"Restore my files of {snapshot.started_at:%d %B, %H:%M} UTC",
            same | {"replace_home": snapshot.snapshot_id},
        ),
        ("Start with an empty home", same | {"replace_home": "empty"}),
    ]
    world.cloud.snapshots.clear()
    await scan(world)
    assert await offered(world, profile) == [
        ("Start with an empty home", same | {"replace_home": "empty"})
    ]


async def test_a_start_elsewhere_has_the_price_of_the_chosen_disk(world: World) -> None:
    """Which is at least as large as the image, as on the spawn page."""
    await stopped_with_copies(world)
    written = {
        "region": "us-east-1",
        "subnets": ["subnet-1"],
        "profile_list": [{"display_name": "T4", "slug": "t4", "instance_types": ["g4dn.xlarge"]}],
        "home": {"kind": "ebs"},
        "disk_gib": 8,
    }
    options = validate_options(written, cleanup_servers=False)
    [profile] = options.profiles
    home = world.provisioner.homes.of("ada", "")

    def price(**chosen: str) -> float:
        [move] = move_actions(
            world.provisioner, options, home, profile, (Market.ON_DEMAND,), chosen
        )
        [found] = re.findall(r"\$([\d.]+)/h", move.label)
        return float(found)

    assert price(disk_gib="8000") > price() + 0.5
    image = await world.provisioner.market.images.current()
    world.cloud.images[image.image_id] = replace(image, root_gib=8000)
    world.provisioner.market.images.doubt(image.image_id)
    await world.provisioner.market.images.current()
    assert price() == price(disk_gib="8000")

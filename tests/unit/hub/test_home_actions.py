"""What a user is offered whose home was deleted in EC2."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.config import Profile
from ec2spawner.hub.failure.home_actions import replacement_actions
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

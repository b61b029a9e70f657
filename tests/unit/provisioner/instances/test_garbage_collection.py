"""Disks and interfaces that outlive their instance are deleted; homes and strangers' never."""

from __future__ import annotations

import pytest

from ec2spawner.core.instances.leaks import GRACE
from ec2spawner.core.tags import HOME, HUB, INTENT, STORE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.network import Interface
from ec2spawner.provisioner.model.cloud.volume import Volume
from tests.unit.provisioner.world import World, until

pytestmark = pytest.mark.asyncio

SCAN_INTERVAL = 0.01


def tags(world: World, **changes: str) -> dict[str, str]:
    return {HUB: "hub", STORE: world.store.store_id, INTENT: "spot-1"} | changes


def left_over(world: World, volume_id: str, **changes: str) -> None:
    world.cloud.volumes[volume_id] = Volume(
        volume_id, "us-east-1a", 100, "available", None, tags(world, **changes)
    )


async def scans(world: World, number: int = 2) -> None:
    before = len(world.cloud.of("free_interfaces"))
    await until(lambda: len(world.cloud.of("free_interfaces")) >= before + number + 1, "scans")


async def test_a_disk_and_an_interface_left_over_are_deleted_when_they_are_old(
    world: World,
) -> None:
    await world.restart(reap_interval=SCAN_INTERVAL)
    left_over(world, "vol-1")
    interface = Interface("eni-1", "available", None, tags(world))
    world.cloud.interfaces["eni-1"] = interface
    await scans(world)
    world.clock.advance(GRACE - 1)
    await scans(world)
    assert "vol-1" in world.cloud.volumes
    assert "eni-1" in world.cloud.interfaces
    world.clock.advance(1)
    await until(lambda: not (world.cloud.volumes or world.cloud.interfaces), "deleted")


async def test_use_in_between_restarts_the_age(world: World) -> None:
    await world.restart(reap_interval=SCAN_INTERVAL)
    left_over(world, "vol-1")
    await scans(world)
    free = world.cloud.volumes.pop("vol-1")
    await scans(world)
    world.cloud.volumes["vol-1"] = free
    world.clock.advance(GRACE - 1)
    await scans(world)
    world.clock.advance(GRACE - 1)
    await scans(world)
    assert "vol-1" in world.cloud.volumes


async def test_homes_and_foreign_resources_are_kept(world: World) -> None:
    world.silence_agents()
    await world.restart(reap_interval=SCAN_INTERVAL)
    lease, _ = await world.ready(home_kind="ebs")
    [home] = world.cloud.volumes
    await world.stop(lease)
    await until(lambda: world.cloud.volumes[home].state == "available", "the home detached")
    left_over(world, "vol-tagged-home", **{HOME: "home-1"})
    left_over(world, "vol-other-store", **{STORE: "other"})
    left_over(world, "vol-other-hub", **{HUB: "other"})
    # Somebody took a home's tags for those of a disk: the store still knows it.
    bare = {key: value for key, value in tags(world).items() if key != HOME}
    world.cloud._change(home, tags=bare)
    await scans(world)
    world.clock.advance(2 * GRACE)
    await scans(world, 4)
    assert set(world.cloud.volumes) == {
        home,
        "vol-tagged-home",
        "vol-other-store",
        "vol-other-hub",
    }


async def test_a_bug_ends_one_scan_and_is_logged_once_with_its_traceback(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.restart(reap_interval=SCAN_INTERVAL)
    left_over(world, "vol-1")
    await scans(world)
    caplog.clear()
    world.cloud.fail("free_volumes", ZeroDivisionError("a bug"), times=3)
    await scans(world, 3)
    world.clock.advance(GRACE)
    await until(lambda: not world.cloud.volumes, "deleted")
    records = [r for r in caplog.records if "left over failed" in r.message]
    assert [bool(each.exc_info) for each in records] == [True, False, False]


async def test_a_refusal_is_tried_again_and_hides_nothing_else(world: World) -> None:
    await world.restart(reap_interval=SCAN_INTERVAL)
    left_over(world, "vol-1")
    left_over(world, "vol-2")
    await scans(world)
    world.cloud.fail("free_volumes", CloudError("Busy", "busy", retryable=True))
    world.cloud.fail("delete_volume", CloudError("VolumeInUse", "in use", retryable=False))
    world.clock.advance(GRACE)
    await until(lambda: not world.cloud.volumes, "deleted")

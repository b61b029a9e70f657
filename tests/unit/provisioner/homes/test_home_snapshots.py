"""Snapshots by schedule, and homes that go for good: never one too many, never another's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core import tags
from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import HomeRules
from tests.unit.provisioner.world import World, until

LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)
HOURLY = HomeRules(schedule=Schedule(every=3600, keep=3))


async def scan(world: World, seconds: float = 3600) -> None:
    """Let time pass until snapshots are looked at again."""
    await world.settle()  # a scan that ends after the jump puts the next one off
    world.clock.advance(seconds)
    await world.complete_passes(1)


async def used_home(world: World) -> str:
    """The id of the volume of a home that is in use."""
    await world.ready(home_kind="ebs")
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    return str(home.volume_id)


def attached(world: World, volume_id: str) -> None:
    """The server runs on, for as long as time passes here."""
    held = world.cloud.volumes[volume_id]
    world.cloud.volumes[volume_id] = replace(held, state="in-use", attached_to="i-ada")


async def test_a_home_in_use_gets_snapshots_up_to_the_limit(world: World) -> None:
    world.silence_agents()
    await world.restart(home=HOURLY)
    volume_id = await used_home(world)
    for hour in range(8):
        attached(world, volume_id)
        world.cloud.files[volume_id].add(f"hour {hour}")
        await scan(world)
    await scan(world, 1000)  # the last one is complete by now
    assert len(world.cloud.snapshots) == 3
    newest = max(world.cloud.snapshots.values(), key=lambda each: each.started_at)
    assert "hour 7" in world.cloud.files[newest.snapshot_id]
    assert newest.tags[tags.SNAPSHOT] == "scheduled"
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    assert world.provisioner._state.homes.newest[home.home_id].snapshot_id == newest.snapshot_id


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["create_snapshot", "delete_snapshot", "list_snapshots"])
async def test_a_kill_at_each_call_leaves_no_extra_snapshot(
    world: World, call: str, after: bool
) -> None:
    world.silence_agents()
    await world.restart(home=HOURLY)
    volume_id = await used_home(world)
    for _ in range(4):
        attached(world, volume_id)
        await scan(world)
    world.cloud.hold(call, after=after)
    calls = len(world.cloud.of(call))
    attached(world, volume_id)
    world.clock.advance(3600)
    world.provisioner._state.wake()
    await until(lambda: len(world.cloud.of(call)) > calls)
    await asyncio.sleep(0.02)  # the answer is never heard
    world.clock.advance(1.0)  # the next process may ask again, but not at the same instant
    await world.restart()
    for _ in range(3):
        await scan(world, 1000)
    assert len(world.cloud.snapshots) <= 3
    asked = [made.at for made in world.cloud.of("create_snapshot")]
    assert len(set(asked)) == len(asked)


async def test_a_clock_ahead_of_ec2s_does_not_make_a_snapshot_at_each_scan(world: World) -> None:
    """Each would push an older state out, until all that is kept is of the last hour."""
    world.silence_agents()
    await world.restart(home=HOURLY)
    volume_id = await used_home(world)
    for seconds in (3600, 900, 900):
        attached(world, volume_id)
        await scan(world, seconds)
        for each, copy in world.cloud.snapshots.items():
            started_at = min(copy.started_at, world.clock() - timedelta(days=2))
            world.cloud.snapshots[each] = replace(copy, started_at=started_at)
    assert len(world.cloud.of("create_snapshot")) == 1


async def test_snapshots_of_another_store_or_without_a_home_are_kept(world: World) -> None:
    world.silence_agents()
    await world.restart(home=replace(HOURLY, schedule=Schedule(every=3600, keep=1)))
    volume_id = await used_home(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    foreign = {
        **world.provisioner._state.homes.tags(home),
        tags.STORE: "another",
        tags.SNAPSHOT: "scheduled",
    }
    for _ in range(3):
        await world.cloud.create_snapshot(volume_id, foreign)
        world.clock.advance(1)
    await world.cloud.create_snapshot(
        volume_id, {tags.HUB: "hub", tags.STORE: world.store.store_id}
    )
    for _ in range(3):
        attached(world, volume_id)
        await scan(world)
    of_others = [s for s in world.cloud.snapshots.values() if s.tags.get(tags.SNAPSHOT) is None]
    assert len(of_others) == 1
    stores = [s.tags[tags.STORE] for s in world.cloud.snapshots.values()]
    assert stores.count("another") == 3


async def test_without_a_schedule_no_snapshot_is_created_or_deleted(world: World) -> None:
    world.silence_agents()
    await world.restart(home=HOURLY)
    volume_id = await used_home(world)
    attached(world, volume_id)
    await scan(world)
    [copy] = world.cloud.snapshots
    await world.restart(home=HomeRules())
    for _ in range(3):
        attached(world, volume_id)
        await scan(world)
    assert list(world.cloud.snapshots) == [copy]


async def test_leftovers_of_a_move_are_deleted(world: World) -> None:
    """Asked for twice, as a lost answer can have it, and not listed when the move ended."""
    world.silence_agents()
    volume_id = await used_home(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    left = {**world.provisioner._state.homes.tags(home), tags.SNAPSHOT: "move", tags.MOVE: "move-1"}
    await world.cloud.create_snapshot(volume_id, left)
    await scan(world, 1000)
    assert world.cloud.snapshots == {}


# --- for good --------------------------------------------------------------------------------


async def gone_for_good(world: World) -> None:
    """Let pass what it takes until nothing more of homes that shall go is looked for."""
    scan_for_deletion = "ec2spawner delete homes"
    for _ in range(2 * world.settings.missing_listings):
        world.clock.advance(60)
        await world.watch_passes(1)
        # Not `settle`: a test may hold another call. While one scan is under way, none begins.
        await until(lambda: scan_for_deletion not in world.provisioner._tasks.names(), "a scan")
    assert world.provisioner._state.homes.leaving() == ()


async def stopped_with_copies(world: World) -> str:
    await world.restart(home=HOURLY)
    lease, agent = await world.ready(home_kind="ebs")
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await scan(world)
    assert world.cloud.snapshots
    return str(home.volume_id)


async def test_deleting_a_home_deletes_its_snapshots_and_record(world: World) -> None:
    await stopped_with_copies(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    await world.provisioner._state.homes.leave(home)
    assert world.provisioner._state.homes.of("ada", "") is None
    await world.complete_passes(1)
    assert world.cloud.volumes == {}
    assert world.cloud.snapshots == {}
    await gone_for_good(world)
    await world.restart()
    assert world.provisioner._state.homes.leaving() == ()
    await world.ready(home_kind="ebs")
    assert len(world.cloud.volumes) == 1


@pytest.mark.parametrize("call", ["delete_volume", "delete_snapshot"])
async def test_deleting_a_home_continues_after_a_kill(world: World, call: str) -> None:
    await stopped_with_copies(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    world.cloud.hold(call)
    await world.provisioner._state.homes.leave(home)
    world.provisioner._state.wake()
    await until(lambda: world.cloud.of(call))
    await world.restart()
    await world.complete_passes(1)
    assert world.cloud.volumes == {}
    assert world.cloud.snapshots == {}


async def test_a_snapshot_not_listed_yet_is_deleted_too(world: World) -> None:
    """It was made seconds before the user was deleted."""
    await stopped_with_copies(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    world.clock.advance(100)
    world.cloud.snapshot_lag = 90
    taken = {**world.provisioner._state.homes.tags(home), tags.SNAPSHOT: "scheduled"}
    late = await world.cloud.create_snapshot(str(home.volume_id), taken)
    await world.provisioner._state.homes.leave(home)
    await world.complete_passes(1)
    assert list(world.cloud.snapshots) == [late.snapshot_id]
    for _ in range(2):
        await scan(world, 60)
    assert world.cloud.snapshots == {}
    await gone_for_good(world)


async def test_a_home_that_is_still_attached_is_deleted_later(world: World) -> None:
    volume_id = await used_home(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    await world.provisioner._state.homes.leave(home)
    await world.complete_passes(2)
    assert volume_id in world.cloud.volumes
    world.cloud.mounted.clear()
    await world.cloud.detach_volume(volume_id, world.cloud.volumes[volume_id].attached_to or "")
    await scan(world, 120)
    assert volume_id not in world.cloud.volumes


async def test_one_undeletable_home_does_not_block_others(world: World) -> None:
    held = await used_home(world)
    lease, agent = await world.ready("bob", home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    for user in ("ada", "bob"):
        home = world.provisioner._state.homes.of(user, "")
        assert home is not None
        await world.provisioner._state.homes.leave(home)
    for _ in range(world.settings.missing_listings + 1):
        await scan(world, 60)
    assert list(world.cloud.volumes) == [held]
    assert [home.user for home in world.provisioner._state.homes.leaving()] == ["ada"]


async def test_a_late_response_does_not_restore_a_deleted_home(
    world: World,
) -> None:
    """Its move was at work when its user was deleted."""
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    gate = world.cloud.hold("create_volume")
    await world.change_home(world.provisioner.homes.plan_move(home, "us-east-1b"))
    world.provisioner._state.wake()
    await until(lambda: len(world.cloud.of("create_volume")) == 2)
    moving = world.provisioner._state.homes.of("ada", "")
    assert moving is not None
    await world.provisioner._state.homes.leave(moving)
    await gone_for_good(world)
    gate.set()
    world.clock.advance(120)
    await world.complete_passes(2)
    assert world.provisioner._state.homes.of("ada", "") is None
    assert world.cloud.volumes == {}
    await world.restart()
    assert world.provisioner._state.homes.of("ada", "") is None


async def test_a_clock_set_back_does_not_delay_deletion(world: World) -> None:
    volume_id = await used_home(world)
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    await world.provisioner._state.homes.leave(home)
    await world.complete_passes(2)
    world.clock.jump(-86400)
    world.cloud.mounted.clear()
    await world.cloud.detach_volume(volume_id, world.cloud.volumes[volume_id].attached_to or "")
    await scan(world, 120)
    assert volume_id not in world.cloud.volumes

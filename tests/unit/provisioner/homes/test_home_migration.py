"""A home moves to another zone by snapshot: nothing of it is lost, and nothing is left over."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ec2spawner.core import tags
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Home, Lease, LeaseState
from ec2spawner.wire import Market, Step
from tests.unit.provisioner.world import SPEC, Agent, World, until

LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)


def home_of(world: World) -> Home:
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    return home


def story(lease: Lease) -> list[tuple[Step, str, str]]:
    return [(event.step, event.message, event.detail) for event in lease.events]


async def stop(world: World, lease: Lease, agent: Agent) -> None:
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)


async def with_a_file(world: World) -> str:
    """Ada's home in us-east-1a, with a file on it, whose zone has sold out since."""
    lease, agent = await world.ready(home_kind="ebs")
    volume_id = str(home_of(world).volume_id)
    world.cloud.files[volume_id].add("thesis")
    await stop(world, lease, agent)
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1a"] = 0
    return volume_id


async def move(world: World, zone: str = "us-east-1b") -> Lease:
    """Ask for a server and for the move."""
    homes = world.provisioner.homes
    home = homes.plan_move(home_of(world), zone)
    spec = replace(SPEC, subnets=homes.subnets_of(home.after))
    return await world.request(home_kind="ebs", spec=spec, home=home)


async def served(world: World, lease: Lease) -> Agent:
    """Once there is a machine, its agent serves the lease."""
    await until(lambda: world.cloud.running(), "an instance")
    agent = Agent(world, world.cloud.running()[-1])
    await agent.serve()
    assert world.now(lease).state is LeaseState.READY
    return agent


async def assert_moved(world: World, before: str, agent: Agent) -> None:
    """The files are in the other zone, and nothing but the new volume is left."""
    await until(lambda: home_of(world).move is None, "the end of the move")
    [volume] = world.cloud.volumes.values()
    assert volume.volume_id != before
    assert (volume.zone, volume.attached_to) == ("us-east-1b", agent.instance_id)
    assert world.cloud.files[volume.volume_id] == {"thesis"}
    assert world.cloud.snapshots == {}
    assert home_of(world).volume_id == volume.volume_id


async def test_the_files_are_there_in_the_other_zone_and_nothing_else_is_left(
    world: World,
) -> None:
    before = await with_a_file(world)
    agent = await served(world, await move(world))
    await assert_moved(world, before, agent)
    assert world.subnets("ada") == ("subnet-b",)


async def test_no_instance_runs_during_the_copy_and_progress_is_shown(
    world: World,
) -> None:
    await with_a_file(world)
    world.cloud.snapshot_seconds = 100
    launches = len(world.cloud.requests())
    lease = await move(world)
    await until(lambda: world.cloud.snapshots)
    for percent in (0, 30, 90):
        said = (Step.MOVE, "Moving your files to us-east-1b", f"{percent} % copied")
        await until(lambda said=said: story(world.now(lease))[-1] == said, said[-1])  # type: ignore[misc]
        world.clock.advance(30 if percent == 0 else 60)
    home = home_of(world)
    assert home.move is not None
    assert world.provisioner.homes.migrations.percent(home.move.move_id) == 90
    assert len(world.cloud.requests()) == launches
    await served(world, lease)
    steps = [step for step, *_ in story(world.now(lease))]
    after_the_move = steps[len(steps) - steps[::-1].index(Step.MOVE) :]
    assert after_the_move[:2] == [Step.REQUEST, Step.BOOT]
    assert world.cloud.requests()[-1].spec.subnets == ("subnet-b",)


async def test_the_old_volume_stays_until_a_server_has_got_ready_with_the_new_one(
    world: World,
) -> None:
    before = await with_a_file(world)
    lease = await move(world)
    await until(lambda: world.cloud.running(), "an instance")
    agent = Agent(world, world.cloud.running()[-1])
    assert await agent.claim() is not None
    await until(agent.home_is_here)
    await world.complete_passes(2)
    assert before in world.cloud.volumes
    await agent.event("failed", "the home volume has errors")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert before in world.cloud.volumes
    assert len(world.cloud.volumes) == 2

    again = await world.request(home_kind="ebs")
    await assert_moved(world, before, await served(world, again))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        "list_snapshots",
        "volume",
        "create_snapshot",
        "create_volume",
        "attach_volume",
        "delete_volume",
        "delete_snapshot",
    ],
)
async def test_a_kill_at_each_call_loses_nothing_and_leaves_nothing(
    world: World, call: str, after: bool
) -> None:
    """Killed before the call, or when it has taken effect and the response is lost."""
    before = await with_a_file(world)
    world.cloud.hold(call, after=after)
    calls = len(world.cloud.of(call))
    lease = await move(world)
    serving = asyncio.create_task(served(world, lease))
    await until(lambda: len(world.cloud.of(call)) > calls, call)
    await asyncio.sleep(0.02)  # the answer is never heard
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await world.kill()
    assert any("thesis" in files for volume, files in world.cloud.files.items() if "vol-" in volume)
    world.clock.advance(90)  # an unconfirmed snapshot is awaited, then requested again
    await world.start()
    world.provisioner._recovery.take_up("ada", "", lease.lease_id)
    for instance_id in world.cloud.running():  # agents outlive the hub; theirs died with the test
        world.cloud.end(instance_id)
    now = world.provisioner._state.leases.get(lease.lease_id)
    if now is None or now.state not in {LeaseState.WAITING, LeaseState.STARTING}:
        lease = await world.request(home_kind="ebs")
    await assert_moved(world, before, await served(world, lease))


async def test_a_lost_snapshot_response_creates_no_second_snapshot(world: World) -> None:
    before = await with_a_file(world)
    world.cloud.snapshot_lag = 20
    world.cloud.fail("create_snapshot", LOST, after=True)
    lease = await move(world)
    await until(lambda: world.cloud.of("create_snapshot"))
    await world.complete_passes(3)
    assert len(world.cloud.of("create_snapshot")) == 1
    world.clock.advance(30)
    await assert_moved(world, before, await served(world, lease))
    assert len(world.cloud.of("create_snapshot")) == 1


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "ConcurrentSnapshotLimitExceeded"])
async def test_a_snapshot_that_was_not_created_is_retried_soon(world: World, code: str) -> None:
    """Without the pause in which a listing may still show one."""
    before = await with_a_file(world)
    refused = CloudError(code, "later", retryable=code == "RequestLimitExceeded")
    world.cloud.fail("create_snapshot", refused, times=2)
    await assert_moved(world, before, await served(world, await move(world)))


async def test_a_snapshot_that_create_volume_does_not_know_yet_is_asked_for_again(
    world: World,
) -> None:
    before = await with_a_file(world)
    unknown = CloudError("InvalidSnapshot.NotFound", "does not exist", retryable=False)
    world.cloud.fail("create_volume", unknown, times=2)
    await assert_moved(world, before, await served(world, await move(world)))
    assert len(world.cloud.of("create_snapshot")) == 1


async def test_a_snapshot_that_create_volume_never_knows_cancels_the_move(world: World) -> None:
    before = await with_a_file(world)
    unknown = CloudError("InvalidSnapshot.NotFound", "does not exist", retryable=False)
    world.cloud.fail("create_volume", unknown, times=10_000)
    lease = await move(world)
    await until(lambda: len(world.cloud.of("create_volume")) > 2)
    world.clock.advance(61)
    assert "does not exist" in (await world.stop_of(lease)).message
    assert list(world.cloud.volumes) == [before]


async def test_a_volume_with_a_lost_response_is_deleted_without_a_listing(
    world: World,
) -> None:
    """The admin has changed what homes are made of since, so that EC2 refuses the same token."""
    before = await with_a_file(world)
    world.cloud.volume_lag = 60
    world.cloud.fail("create_volume", LOST, after=True)
    lease = await move(world)
    await until(lambda: len(world.cloud.volumes) == 2, "a volume unknown to the hub")
    await world.restart(home=replace(world.settings.home, volume_type="io2"))
    await until(lambda: len(world.cloud.volumes) == 3, "another one")
    world.clock.advance(120)
    await assert_moved(world, before, await served(world, lease))


async def test_an_impossible_move_leaves_the_files_in_place(world: World) -> None:
    before = await with_a_file(world)
    refused = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    world.cloud.fail("create_volume", refused)
    stop = await world.stop_of(await move(world))
    assert "Your files could not be moved to us-east-1b: You may not." in stop.message
    assert "They are in us-east-1a as before" in stop.message
    await world.complete_passes(1)
    assert list(world.cloud.volumes) == [before]
    assert world.cloud.snapshots == {}
    assert world.subnets("ada") == ("subnet-a",)


async def test_a_failed_snapshot_cancels_the_move(world: World) -> None:
    before = await with_a_file(world)
    world.cloud.snapshot_seconds = 100
    lease = await move(world)
    await until(lambda: world.cloud.snapshots)
    [(snapshot_id, snapshot)] = world.cloud.snapshots.items()
    world.cloud.snapshots[snapshot_id] = replace(snapshot, state="error")
    assert "could not be moved" in (await world.stop_of(lease)).message
    await world.complete_passes(1)
    assert list(world.cloud.volumes) == [before]
    assert world.cloud.snapshots == {}


async def test_a_cancelled_start_does_not_cancel_the_move(world: World) -> None:
    before = await with_a_file(world)
    world.cloud.snapshot_seconds = 100
    lease = await move(world)
    await until(lambda: world.cloud.snapshots)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    world.clock.advance(200)
    await until(lambda: home_of(world).zone == "us-east-1b")
    assert before in world.cloud.volumes
    await assert_moved(world, before, await served(world, await world.request(home_kind="ebs")))


async def test_a_home_may_move_again_before_it_is_opened(
    world: World,
) -> None:
    """The other zone has sold out meanwhile, too; then the first has room again."""
    before = await with_a_file(world)
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1b"] = 0
    await world.state(await move(world), LeaseState.ENDED)
    assert home_of(world).zone == "us-east-1b"
    world.cloud.capacity.clear()
    world.clock.advance(600)
    world.cloud.subnets["subnet-c"] = "us-east-1c"  # type: ignore[index]
    await world.restart(subnets=("subnet-a", "subnet-b", "subnet-c"))
    agent = await served(world, await move(world, "us-east-1c"))
    await until(lambda: home_of(world).move is None)
    [volume] = world.cloud.volumes.values()
    assert volume.volume_id != before
    assert (volume.zone, volume.attached_to) == ("us-east-1c", agent.instance_id)
    assert world.cloud.files[volume.volume_id] == {"thesis"}
    assert world.cloud.snapshots == {}


async def test_files_written_after_the_first_move_move_with_the_second(world: World) -> None:
    """The new volume was attached, but no server got ready: it may have been written to."""
    await with_a_file(world)
    lease = await move(world)
    await until(lambda: world.cloud.running())
    agent = Agent(world, world.cloud.running()[-1])
    assert await agent.claim() is not None
    await until(agent.home_is_here)
    world.cloud.files[str(home_of(world).volume_id)].add("new chapter")
    await agent.event("failed", "out of memory")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    assert len(world.cloud.volumes) == 2
    world.cloud.capacity.clear()
    world.clock.advance(600)
    await served(world, await move(world, "us-east-1a"))
    await until(lambda: home_of(world).move is None)
    [volume] = world.cloud.volumes.values()
    assert volume.zone == "us-east-1a"
    assert world.cloud.files[volume.volume_id] == {"thesis", "new chapter"}


async def test_resources_of_a_move_are_tagged_in_the_creating_call(world: World) -> None:
    await with_a_file(world)
    await served(world, await move(world))
    _, of_snapshot = world.cloud.of("create_snapshot")[0].arguments
    of_volume = world.cloud.of("create_volume")[-1].arguments[3]
    for made in (of_snapshot, of_volume):
        assert made[tags.HUB] == "hub"
        assert made[tags.STORE] == world.store.store_id
        assert made[tags.HOME] == home_of(world).home_id
        assert made[tags.MOVE].startswith("move-")
        assert tags.INTENT not in made


async def test_ec2_is_polled_at_an_interval_however_many_passes_run(world: World) -> None:
    """While files are copied, and while EC2 does not let the old volume be deleted."""
    await world.restart(quiet_interval=world.settings.busy_interval)
    before = await with_a_file(world)
    world.cloud.snapshot_seconds = 100
    refused = CloudError("UnauthorizedOperation", "You may not.", retryable=False)
    world.cloud.fail("delete_volume", refused, times=9999)
    lease = await move(world)
    await until(lambda: world.cloud.snapshots)
    for call in ("list_snapshots", "delete_volume"):
        await until(lambda call=call: len(world.cloud.of(call)) > 0, call)  # type: ignore[misc]
        calls = len(world.cloud.of(call))
        await asyncio.sleep(5 * world.settings.busy_interval)
        assert len(world.cloud.of(call)) - calls <= 4
        if call == "list_snapshots":
            world.clock.advance(100)
            await served(world, lease)
    assert before in world.cloud.volumes


async def test_a_home_can_move_again_during_the_cleanup_of_the_last_move(
    world: World,
) -> None:
    await with_a_file(world)
    gate = world.cloud.hold("delete_volume")
    lease = await move(world)
    agent = await served(world, lease)
    await until(lambda: world.cloud.of("delete_volume"))
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    world.cloud.capacity.clear()
    again = await move(world, "us-east-1a")
    gate.set()
    await served(world, again)
    await until(lambda: home_of(world).move is None)
    [volume] = world.cloud.volumes.values()
    assert volume.zone == "us-east-1a"
    assert world.cloud.files[volume.volume_id] == {"thesis"}


async def test_a_late_resize_does_not_undo_a_move(world: World) -> None:
    """Its start was cancelled, and EC2 took its time to answer."""
    before = await with_a_file(world)
    world.cloud.capacity.clear()
    gate = world.cloud.hold("modify_volume")
    lease = await world.request(home_kind="ebs", home_gib=40)
    [instance_id] = await world.boot()
    await Agent(world, instance_id).claim()
    await until(lambda: world.cloud.of("modify_volume"))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running())
    again = await move(world)
    await until(lambda: home_of(world).zone == "us-east-1b")
    gate.set()
    await assert_moved(world, before, await served(world, again))


async def test_deleting_the_new_volume_keeps_the_old_one(world: World) -> None:
    before = await with_a_file(world)
    lease = await move(world)
    await until(lambda: world.cloud.running(), "an instance")
    del world.cloud.volumes[str(home_of(world).volume_id)]
    world.cloud.capacity.clear()
    first = Agent(world, world.cloud.running()[-1])
    assert await first.claim() is not None
    await until(lambda: world.subnets("ada") == ("subnet-a",), "the old one is the home again")
    await until(lambda: first.instance_id not in world.cloud.running() and world.cloud.running())
    agent = await served(world, lease)
    assert world.cloud.volumes[before].attached_to == agent.instance_id
    assert world.cloud.files[before] == {"thesis"}


async def test_a_server_without_the_home_does_not_confirm_the_new_volume(world: World) -> None:
    before = await with_a_file(world)
    lease = await move(world)
    await until(lambda: world.cloud.running(), "an instance")
    agent = Agent(world, world.cloud.running()[-1])
    assert await agent.claim() is not None
    await until(agent.home_is_here)
    await agent.event("failed", "the home volume has errors")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    await world.ready(home_kind="none")
    await world.complete_passes(2)
    assert before in world.cloud.volumes

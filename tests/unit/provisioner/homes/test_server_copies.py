"""A named server's home begins as a copy: made once, of the files as they are, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ec2spawner.config import Profile, validate_options
from ec2spawner.core import tags
from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.core.profiles.choices import Choice
from ec2spawner.hub.spawn.home_choice import plan_home
from ec2spawner.provisioner.homes.server_copies import MISSING, NOT_HERE_SECONDS
from ec2spawner.provisioner.homes.snapshots import SCAN_INTERVAL
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.volume import Volume
from ec2spawner.provisioner.model.leases.lease import FILES_COPIED, Home, Lease, LeaseState
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.provisioner.model.settings import HomeRules
from ec2spawner.wire import Market, Stop
from tests.unit.provisioner.runs.submitted import submit
from tests.unit.provisioner.world import SPEC, Agent, World, until

LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)
REFUSED = CloudError("UnauthorizedOperation", "You are not authorized.", retryable=False)
FULL = CloudError("VolumeLimitExceeded", "No more volumes.", retryable=False)
UNKNOWN = CloudError("ParamValidationError", 'Unknown parameter: "Encrypted"', retryable=False)
BUSY = CloudError("ConcurrentCopyVolumeLimitExceeded", "One at a time.", retryable=False)


def home_of(world: World, server: str) -> Home:
    home = world.provisioner._state.homes.of("ada", server)
    assert home is not None
    return home


async def with_a_file(world: World) -> tuple[Lease, Agent]:
    """Ada's default server, which runs, with a file in its home in us-east-1a."""
    lease, agent = await world.ready("ada", home_kind="ebs")
    world.cloud.files[str(home_of(world, "").volume_id)].add("thesis")
    return lease, agent


async def stop(world: World, lease: Lease, agent: Agent) -> None:
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)


async def request(world: World, server: str = "gpu", size_gib: int = 50) -> Lease:
    """Ask for a named server on a hub that copies homes."""
    homes = world.provisioner.homes
    home = await homes.plan_copy("ada", server, size_gib)
    spec = replace(SPEC, subnets=homes.subnets_of(home.after))
    return await world.request("ada", server=server, home_kind="ebs", spec=spec, home=home)


async def served(world: World, lease: Lease, others: int = 1) -> Agent:
    """Once there is an instance for it, its agent serves the lease."""
    await until(lambda: len(world.cloud.running()) > others, "an instance")
    agent = Agent(world, world.cloud.running()[-1])
    await agent.serve()
    assert world.now(lease).state is LeaseState.READY
    return agent


def copies(world: World) -> list[Volume]:
    """Volumes of Ada's named server."""
    mine = [v for v in world.cloud.volumes.values() if v.tags[tags.SERVER] == "gpu"]
    return sorted(mine, key=lambda each: each.volume_id)


async def test_a_named_server_has_the_files_while_the_default_server_runs(world: World) -> None:
    await with_a_file(world)
    lease = await request(world)
    agent = await served(world, lease)
    [copy] = copies(world)
    assert world.cloud.files[copy.volume_id] == {"thesis"}
    assert copy.attached_to == agent.instance_id
    source = world.cloud.volumes[str(home_of(world, "").volume_id)]
    assert source.attached_to not in {None, agent.instance_id}
    assert copy.zone == source.zone
    assert copy.tags[tags.HOME] == home_of(world, "gpu").home_id != home_of(world, "").home_id
    assert (copy.tags[tags.USER], copy.tags[tags.PAYER]) == ("ada", "user:ada")
    assert world.cloud.of("create_snapshot") == []


async def test_neither_sees_what_the_other_writes_later(world: World) -> None:
    await with_a_file(world)
    await served(world, await request(world))
    source, [copy] = str(home_of(world, "").volume_id), copies(world)
    world.cloud.files[source].add("later")
    world.cloud.files[copy.volume_id].add("mine")
    assert world.cloud.files[source] == {"thesis", "later"}
    assert world.cloud.files[copy.volume_id] == {"thesis", "mine"}


async def test_its_next_start_has_its_own_files_and_copies_nothing(world: World) -> None:
    await with_a_file(world)
    lease = await request(world)
    agent = await served(world, lease)
    [copy] = copies(world)
    await stop(world, lease, agent)
    await served(world, await request(world))
    assert copies(world)[0].volume_id == copy.volume_id
    assert len(world.cloud.of("copy_volume")) == 1


async def test_its_start_says_of_when_the_files_are(world: World) -> None:
    await with_a_file(world)
    world.clock.advance(60)
    lease = await request(world)
    await until(lambda: copies(world))
    await world.complete_passes(1)
    said = [event.message for event in world.now(lease).events]
    when = f"as of {world.clock():%d %B, %H:%M} UTC"
    assert f"{FILES_COPIED} your default server, {when}" in said
    assert home_of(world, "gpu").created_at == world.clock()


async def test_a_run_has_the_files_of_its_own_server(world: World) -> None:
    """All who have access to a server submit runs, and read what those read."""
    await with_a_file(world)
    lab, agent = await world.ready("ada", server="lab", home_kind="ebs")
    await stop(world, lab, agent)
    of_lab = str(home_of(world, "lab").volume_id)
    world.cloud.files[of_lab].add("protocol")
    [number] = await submit(world, server="lab")
    run = f"/run/{number}"
    lease = await request(world, run)
    await until(lambda: home_of(world, run).volume_id is not None, "the copy")
    copy = home_of(world, run)
    assert copy.made_from == of_lab
    assert world.cloud.files[str(copy.volume_id)] == {"protocol"}
    await world.complete_passes(1)
    said = [event.message for event in world.now(lease).events]
    assert any(each.startswith(f"{FILES_COPIED} your server lab, as of") for each in said)


@pytest.mark.parametrize("home", ["none", "temporary"])
async def test_a_run_of_a_server_without_files_begins_empty(world: World, home: str) -> None:
    await with_a_file(world)
    if home == "temporary":
        kept = Mounts(temporary_home=True)
        await world.ready("ada", server="lab", home_kind="ebs", mounts=kept)
    [number] = await submit(world, server="lab")
    planned = await world.provisioner.homes.plan_copy("ada", f"/run/{number}", 50)
    assert planned.after is None


async def test_a_first_user_starts_a_named_server_with_an_empty_home(world: World) -> None:
    lease = await request(world)
    await served(world, lease, others=0)
    [volume] = world.cloud.volumes.values()
    assert world.cloud.files[volume.volume_id] == set()
    assert world.cloud.of("copy_volume") == []


async def test_a_temporary_home_is_not_copied(world: World) -> None:
    await world.ready("ada", home_kind="ebs", mounts=Mounts(temporary_home=True))
    lease = await request(world)
    homes = world.provisioner._state.homes
    assert {home.server for home in (*homes.live(), *homes.leaving())} == {""}
    await served(world, lease)
    assert world.cloud.of("copy_volume") == []
    assert not home_of(world, "gpu").is_temporary


async def test_a_copy_does_not_take_the_files_of_a_temporary_home(world: World) -> None:
    """Which took the place of the source after the copy was wanted."""
    lease, agent = await with_a_file(world)
    world.cloud.fail("copy_volume", FULL)
    await failure_of(world, await request(world))
    await stop(world, lease, agent)
    await world.provisioner.homes.delete(home_of(world, ""))
    await world.ready("ada", home_kind="ebs", mounts=Mounts(temporary_home=True))
    lease = await request(world)
    stopped = await world.stop_of(lease)
    assert "your default server has none any more" in stopped.message
    assert len(world.cloud.of("copy_volume")) == 1


async def test_a_temporary_home_that_is_about_to_go_does_not_replace_the_copy(
    world: World,
) -> None:
    await with_a_file(world)
    await world.request("ada", server="gpu", home_kind="ebs", mounts=Mounts(temporary_home=True))
    await until(lambda: len(world.cloud.running()) == 2)
    await Agent(world, world.cloud.running()[-1]).serve()
    left = home_of(world, "gpu")
    assert left.is_temporary
    await world.change_home(await world.provisioner.homes.plan_copy("ada", "gpu", 50))
    assert home_of(world, "gpu").is_being_copied
    assert home_of(world, "gpu").home_id != left.home_id


async def test_a_home_that_is_there_is_never_copied_over(world: World) -> None:
    lease, agent = await world.ready("ada", server="gpu", home_kind="ebs")
    await stop(world, lease, agent)
    before = home_of(world, "gpu")
    await with_a_file(world)
    await world.change_home(await world.provisioner.homes.plan_copy("ada", "gpu", 50))
    assert home_of(world, "gpu").made_from == before.made_from == ""


async def test_it_is_copied_in_the_zone_of_the_source_and_as_large(world: World) -> None:
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1a"] = 0
    await with_a_file(world)
    volume_id = str(home_of(world, "").volume_id)
    grown = replace(world.cloud.volumes[volume_id], size_gib=80)  # by an admin
    world.cloud.volumes[volume_id] = grown
    await served(world, await request(world, size_gib=20))
    [copy] = copies(world)
    assert (copy.zone, copy.size_gib) == ("us-east-1b", 80)
    assert home_of(world, "gpu").size_gib == 80
    assert world.cloud.of("create_snapshot") == []


async def test_its_first_start_is_asked_for_in_the_zone_of_the_source_and_as_large(
    world: World,
) -> None:
    await world.ready("ada", home_kind="ebs", home_gib=70)
    await world.change_home(await world.provisioner.homes.plan_copy("ada", "gpu", 50))
    assert world.provisioner.homes.subnets_for("ada", "gpu") == ("subnet-a",)
    assert home_of(world, "gpu").size_gib == 70
    world.clock.advance(120)
    await world.provisioner.homes.list_volumes()
    assert home_of(world, "gpu").zone == "us-east-1a", "also when it was not made for long"


async def test_no_instance_is_bought_before_the_volume_is_there(world: World) -> None:
    await with_a_file(world)
    launches = len(world.cloud.requests())
    gate = world.cloud.hold("copy_volume")
    lease = await request(world)
    await until(lambda: world.cloud.of("copy_volume"))
    await world.watch_passes(3)
    assert len(world.cloud.requests()) == launches
    gate.set()
    await served(world, lease)


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_response_makes_no_second_volume(world: World, after: bool) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", LOST, times=2, after=after)
    await served(world, await request(world))
    assert len(copies(world)) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_that_is_killed_during_the_copy_makes_one_volume(
    world: World, after: bool
) -> None:
    await with_a_file(world)
    world.cloud.hold("copy_volume", after=after)
    lease = await request(world)
    await until(lambda: world.cloud.of("copy_volume"))
    assert home_of(world, "gpu").is_being_copied, "stored before the call"
    await world.restart()
    await served(world, lease)
    [copy] = copies(world)
    assert world.cloud.files[copy.volume_id] == {"thesis"}


async def test_a_cancelled_start_leaves_the_copy_to_the_next_one(world: World) -> None:
    await with_a_file(world)
    gate = world.cloud.hold("copy_volume")
    lease = await request(world)
    await until(lambda: world.cloud.of("copy_volume"))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    gate.set()
    await until(lambda: copies(world))
    await world.complete_passes(1)
    await served(world, await request(world))
    assert len(copies(world)) == 1


async def test_a_copy_after_another_of_the_same_volume_is_awaited(world: World) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", BUSY, times=2)
    await served(world, await request(world))
    assert world.cloud.of("create_snapshot") == []


# --- by snapshot ---


async def test_a_snapshot_is_made_where_copies_are_refused_and_goes_afterwards(
    world: World,
) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", REFUSED, times=9999)
    world.cloud.snapshot_seconds = 100
    launches = len(world.cloud.requests())
    lease = await request(world)
    await until(lambda: world.cloud.snapshots, "a snapshot")
    taken_at = world.clock()
    world.cloud.files[str(home_of(world, "").volume_id)].add("later")
    world.clock.advance(55)
    await until(lambda: world.now(lease).events[-1].detail == "50 % copied")
    assert len(world.cloud.requests()) == launches
    world.clock.advance(60)
    await served(world, lease)
    [copy] = copies(world)
    assert world.cloud.files[copy.volume_id] == {"thesis"}
    assert home_of(world, "gpu").created_at == taken_at
    await until(lambda: not world.cloud.snapshots, "no snapshot is left")
    assert len(world.cloud.of("copy_volume")) == 1


async def test_a_snapshot_that_has_all_files_serves_at_once(world: World) -> None:
    await world.restart(home=HomeRules(schedule=Schedule(every=3600, keep=3)))
    lease, agent = await with_a_file(world)
    await stop(world, lease, agent)
    world.clock.advance(SCAN_INTERVAL * 5)
    await until(lambda: world.cloud.snapshots, "the scheduled one")
    world.clock.advance(SCAN_INTERVAL * 2)
    await until(lambda: home_of(world, "").home_id in world.provisioner._state.homes.newest)
    world.cloud.fail("copy_volume", REFUSED, times=9999)
    await served(world, await request(world), others=0)
    [copy] = copies(world)
    assert world.cloud.files[copy.volume_id] == {"thesis"}
    assert len(world.cloud.of("create_snapshot")) == 1
    assert len(world.cloud.snapshots) == 1, "it is the schedule's, and stays"


@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_that_is_killed_during_the_snapshot_leaves_none(
    world: World, after: bool
) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", REFUSED, times=9999)
    world.cloud.hold("create_snapshot", after=after)
    lease = await request(world)
    await until(lambda: world.cloud.of("create_snapshot"))
    await world.restart()
    await served(world, lease)
    assert len(copies(world)) == 1
    await until(lambda: not world.cloud.snapshots, "no snapshot is left")


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_a_snapshot_has_made_is_not_copied_again(world: World, is_killed: bool) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", REFUSED)
    gate = world.cloud.hold("create_volume", after=True, then=LOST)
    lease = await request(world)
    await until(lambda: copies(world), "a volume from the snapshot")
    if is_killed:
        await world.restart()
    else:
        await world.stop(lease)
        await world.state(lease, LeaseState.ENDED)
        gate.set()
        await world.complete_passes(1)
        lease = await request(world)
    await served(world, lease)
    assert len(copies(world)) == 1


async def test_the_snapshot_of_a_start_that_was_given_up_is_deleted(world: World) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", REFUSED, times=9999)
    world.cloud.snapshot_seconds = 10**6
    lease = await request(world)
    await until(lambda: world.cloud.snapshots)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    world.silence_agents()
    world.clock.advance(SCAN_INTERVAL + 1)
    await until(lambda: not world.cloud.snapshots, "deleted by a scan")


async def test_many_copies_of_an_earlier_process_share_a_listing(world: World) -> None:
    users = [f"user-{number}" for number in range(20)]
    for user in users:
        lease, agent = await world.ready(user, home_kind="ebs")
        await stop(world, lease, agent)
    for user in users:
        await world.change_home(await world.provisioner.homes.plan_copy(user, "gpu", 50))
    await world.restart()
    gate, before = world.cloud.hold("list_volumes"), len(world.cloud.of("list_volumes"))
    for user in users:
        await world.request(user, server="gpu", home_kind="ebs")
    # A listing that began before this may serve the first.
    made, busy = world.cloud.of, world.provisioner.homes.copies._busy
    await until(lambda: len(busy) + len(made("copy_volume")) == len(users))
    await world.watch_passes(1)
    gate.set()
    await until(lambda: len(world.cloud.of("copy_volume")) == len(users))
    assert len(world.cloud.of("list_volumes")) - before < len(users) / 2


async def test_copies_are_asked_for_again_some_minutes_after_a_refusal(world: World) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", REFUSED)
    await served(world, await request(world))
    await served(world, await request(world, "two"), others=2)
    assert len(world.cloud.of("copy_volume")) == 1
    world.clock.advance(NOT_HERE_SECONDS)
    await request(world, "three")
    await until(lambda: len(world.cloud.of("copy_volume")) == 2)


# --- what cannot be copied ---


async def failure_of(world: World, lease: Lease) -> Stop:
    stop = await world.stop_of(lease)
    assert world.now(lease).instance_id is None
    assert copies(world) == []
    return stop


async def test_a_parameter_that_boto3_does_not_know_is_reported_and_no_snapshot_is_made(
    world: World,
) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", UNKNOWN, times=9999)
    stopped = await failure_of(world, await request(world))
    assert "boto3 is older than this version needs" in stopped.message
    assert world.cloud.of("create_snapshot") == []


async def test_a_quota_fails_the_start_with_the_cause_and_no_empty_home(world: World) -> None:
    await with_a_file(world)
    launches = len(world.cloud.requests())
    world.cloud.fail("copy_volume", FULL)
    stopped = await failure_of(world, await request(world))
    assert stopped.message.startswith("The files of your default server could not be copied: ")
    assert "No more volumes" in stopped.message
    assert "larger quota of disks" in stopped.message
    assert len(world.cloud.requests()) == launches
    assert world.provisioner.homes.is_gone(home_of(world, "gpu")), "an empty home is offered"
    await served(world, await request(world))
    assert world.cloud.files[copies(world)[0].volume_id] == {"thesis"}
    assert not world.provisioner.homes.is_gone(home_of(world, "gpu"))


async def test_a_source_that_was_deleted_fails_the_start(world: World) -> None:
    await stop(world, *await with_a_file(world))
    source = str(home_of(world, "").volume_id)
    del world.cloud.volumes[source]
    before = len(world.cloud.of("volume"))
    stopped = await failure_of(world, await request(world))
    assert f"their volume, {source}, does not exist any more. Start again" in stopped.message
    assert len(world.cloud.of("volume")) - before == MISSING
    assert world.cloud.of("copy_volume") == []


async def test_an_empty_home_instead_is_empty_and_in_any_zone(world: World) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", FULL)
    await failure_of(world, await request(world))
    await world.change_home(
        await world.provisioner.homes.plan_replacement(home_of(world, "gpu"), "")
    )
    assert world.provisioner.homes.subnets_for("ada", "gpu") == SPEC.subnets
    await served(world, await request(world))
    assert world.cloud.files[copies(world)[0].volume_id] == set()


async def test_who_chooses_an_empty_home_during_the_copy_gets_no_second_volume(
    world: World,
) -> None:
    await with_a_file(world)
    gate = world.cloud.hold("copy_volume", after=True)
    lease = await request(world)
    await until(lambda: copies(world))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.change_home(
        await world.provisioner.homes.plan_replacement(home_of(world, "gpu"), "")
    )
    gate.set()
    await until(lambda: not copies(world), "the copy is deleted")
    await served(world, await request(world))
    assert world.cloud.files[copies(world)[0].volume_id] == set()


async def test_an_empty_home_instead_is_empty_though_the_copy_was_made(world: World) -> None:
    """And only its response was lost."""
    await with_a_file(world)
    world.cloud.fail("copy_volume", LOST, times=9999, after=True)
    lease = await request(world)
    await until(lambda: copies(world))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    [copy] = copies(world)
    await world.change_home(
        await world.provisioner.homes.plan_replacement(home_of(world, "gpu"), "")
    )
    await world.provisioner.homes.list_volumes()
    await served(world, await request(world))
    world.silence_agents()
    world.clock.advance(61)
    await until(lambda: copy not in copies(world), "the copy is deleted")
    [empty] = copies(world)
    assert world.cloud.files[empty.volume_id] == set()
    assert empty.attached_to is not None


async def test_an_empty_home_chosen_while_the_source_is_read_is_empty(world: World) -> None:
    await with_a_file(world)
    before = len(world.cloud.of("volume"))
    gate = world.cloud.hold("volume", after=True)
    lease = await request(world)
    await until(lambda: len(world.cloud.of("volume")) > before)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.change_home(
        await world.provisioner.homes.plan_replacement(home_of(world, "gpu"), "")
    )
    gate.set()
    await world.complete_passes(1)
    assert not home_of(world, "gpu").is_copy
    assert world.cloud.of("copy_volume") == []


async def test_a_pending_copy_is_given_up_where_homes_are_copied_no_more(world: World) -> None:
    await with_a_file(world)
    world.cloud.fail("copy_volume", FULL)
    await failure_of(world, await request(world))
    profile = {"display_name": "T4", "gpu": "T4"}
    raw = {"region": "us-east-1", "subnets": ["subnet-a"], "profile_list": [profile]}
    options = validate_options(raw, cleanup_servers=False, environ={})
    choice: Choice[Profile] = Choice(options.profiles[0], tuple(Market))
    await world.change_home(await plan_home(world.provisioner, "ada", "gpu", choice, options))
    assert world.provisioner.homes.of("ada", "gpu") is None
    lease = await world.request("ada", server="gpu", home_kind="ebs")
    await served(world, lease)
    assert world.cloud.files[copies(world)[0].volume_id] == set()


async def test_the_copy_follows_a_source_that_has_moved_to_another_zone(world: World) -> None:
    await stop(world, *await with_a_file(world))
    world.cloud.fail("copy_volume", FULL)
    await failure_of(world, await request(world))
    moved = replace(world.cloud.volumes[str(home_of(world, "").volume_id)], zone="us-east-1b")
    world.cloud.volumes[moved.volume_id] = moved
    await world.complete_passes(1)  # the hub has seen it, too
    lease = await request(world)
    agent = await served(world, lease, others=0)
    assert copies(world)[0].zone == "us-east-1b"
    assert world.cloud.machines[agent.instance_id].instance.zone == "us-east-1b"


async def test_it_is_deleted_like_any_home(world: World) -> None:
    await with_a_file(world)
    lease = await request(world)
    await stop(world, lease, await served(world, lease))
    await world.provisioner.homes.delete(home_of(world, "gpu"))
    await until(lambda: not copies(world))
    assert str(home_of(world, "").volume_id) in world.cloud.volumes


async def test_a_home_deleted_during_the_copy_leaves_no_volume(world: World) -> None:
    await with_a_file(world)
    gate = world.cloud.hold("copy_volume", after=True)
    lease = await request(world)
    await until(lambda: copies(world))
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.provisioner.homes.delete(home_of(world, "gpu"))
    gate.set()
    await asyncio.sleep(0)
    world.silence_agents()
    for _ in range(10):
        world.clock.advance(61)
        await world.complete_passes(1)
    assert copies(world) == []

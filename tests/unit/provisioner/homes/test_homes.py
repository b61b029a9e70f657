"""Homes on EBS: made once, in one zone, written by one instance, never lost."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ec2spawner.core import tags
from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.hub.app import service
from ec2spawner.provisioner.homes import volumes as homes
from ec2spawner.provisioner.homes.placement import Placement
from ec2spawner.provisioner.homes.snapshots import SCAN_INTERVAL
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.cloud.volume import VolumeSpec
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import HomeRules
from ec2spawner.provisioner.store.store import StoreError
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until
from tests.user_accounts import fake_user

LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)


async def stopped(world: World, user: str = "ada") -> str:
    """A home, of a server that was started and stopped. Its volume's id."""
    lease, agent = await world.ready(user, home_kind="ebs")
    home = world.provisioner._state.homes.of(user, "")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    assert home is not None
    return str(home.volume_id)


async def test_a_first_home_is_created_in_the_zone_of_its_instance_and_tagged(world: World) -> None:
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1a"] = 0
    await world.ready("Ada Lovelace", home_kind="ebs", home_gib=33)
    [volume] = world.cloud.volumes.values()
    assert (volume.zone, volume.size_gib) == ("us-east-1b", 33)
    assert volume.tags[tags.HUB] == "hub"
    assert volume.tags[tags.STORE] == world.store.store_id
    assert volume.tags[tags.USER] == "Ada Lovelace"
    assert volume.tags[tags.PAYER] == "user:Ada Lovelace"
    home = world.provisioner._state.homes.of("Ada Lovelace", "")
    assert home is not None
    assert volume.tags[tags.HOME] == home.home_id


async def test_the_claim_is_answered_when_the_volume_has_an_id(world: World) -> None:
    gate = world.cloud.hold("create_volume")
    await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await until(lambda: world.cloud.of("create_volume"))
    assert not claim.done()
    gate.set()
    granted = await claim
    assert granted is not None
    assert granted.home is not None
    assert granted.home.volume_id in world.cloud.volumes


async def test_the_next_start_gets_the_same_home_in_its_zone(world: World) -> None:
    volume_id = await stopped(world)
    assert world.subnets("ada") == ("subnet-a",)
    assert world.subnets("bob") == ("subnet-a", "subnet-b")
    _, agent = await world.ready(home_kind="ebs")
    assert world.cloud.requests()[-1].spec.subnets == ("subnet-a",)
    assert list(world.cloud.volumes) == [volume_id]
    assert world.cloud.volumes[volume_id].attached_to == agent.instance_id


async def test_each_user_has_a_home_of_their_own(world: World) -> None:
    assert await stopped(world, "ada") != await stopped(world, "bob")


async def test_a_home_attached_elsewhere_is_awaited(world: World) -> None:
    world.cloud.keeps_volumes = True
    world.cloud.fail("detach_volume", LOST)
    volume_id = await stopped(world)
    assert world.cloud.volumes[volume_id].attached_to is not None
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim() is not None
    reads = len(world.cloud.of("volume"))
    await until(lambda: len(world.cloud.of("volume")) > reads + 5)
    assert world.now(lease).state is LeaseState.STARTING
    assert len(world.cloud.of("attach_volume")) == 1, "what another holds is not asked for"
    held = world.cloud.volumes[volume_id]
    world.cloud.volumes[volume_id] = replace(held, attached_to=None)
    await agent.serve()
    assert world.now(lease).state is LeaseState.READY


async def test_a_start_waits_for_the_shutdown_of_what_has_its_home(world: World) -> None:
    """Flushing and EC2's own time may take longer than an attachment or a start is waited for."""
    world.cloud.keeps_volumes = True
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped", home_released=False)
    await world.state(lease, LeaseState.ENDED)
    held = world.cloud.machines[agent.instance_id]
    held.ended = InstanceState.SHUTTING_DOWN
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    next_agent = Agent(world, instance_id)
    for _ in range(20):
        world.clock.advance(60)
        await world.watch_passes(1)
        assert await next_agent.claim(wait=55.0) is None
    waiting = world.now(lease)
    assert waiting.state is LeaseState.STARTING
    assert "shut down" in waiting.events[-1].detail
    held.ended = InstanceState.TERMINATED
    [volume_id] = world.cloud.volumes
    world.cloud.volumes[volume_id] = replace(
        world.cloud.volumes[volume_id], state="available", attached_to=None
    )
    assert (await next_agent.serve()).state is LeaseState.READY
    assert world.cloud.volumes[volume_id].attached_to == instance_id


async def test_a_home_that_the_hub_has_detached_is_attached_without_a_reading(
    world: World,
) -> None:
    volume_id = await stopped(world)
    reads = len(world.cloud.of("volume"))
    _, agent = await world.ready(home_kind="ebs")
    assert world.cloud.volumes[volume_id].attached_to == agent.instance_id
    assert len(world.cloud.of("volume")) == reads


async def test_a_home_that_a_listing_shows_as_available_is_attached_without_a_reading(
    world: World,
) -> None:
    volume_id = await stopped(world)
    await world.restart()
    listings = len(world.cloud.of("list_volumes"))
    await until(lambda: len(world.cloud.of("list_volumes")) > listings)
    await world.complete_passes(1)
    reads = len(world.cloud.of("volume"))
    await world.ready(home_kind="ebs")
    assert world.cloud.volumes[volume_id].attached_to is not None
    assert len(world.cloud.of("volume")) == reads


async def test_a_home_that_is_attached_counts_as_free_no_more(world: World) -> None:
    world.cloud.keeps_volumes = True
    await stopped(world)
    world.cloud.fail("detach_volume", LOST)
    volume_id = await stopped(world)
    assert world.cloud.volumes[volume_id].attached_to is not None
    await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    reads = len(world.cloud.of("volume"))
    assert await Agent(world, instance_id).claim() is not None
    await until(lambda: len(world.cloud.of("volume")) > reads + 1)
    assert len(world.cloud.of("attach_volume")) == 2


async def test_a_home_that_somebody_attached_after_the_hub_detached_it_is_awaited(
    world: World,
) -> None:
    volume_id = await stopped(world)
    free = world.cloud.volumes[volume_id]
    world.cloud.volumes[volume_id] = replace(free, attached_to="i-of-an-admin", state="in-use")
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim() is not None
    reads = len(world.cloud.of("volume"))
    await until(lambda: len(world.cloud.of("volume")) > reads + 3)
    assert world.now(lease).state is LeaseState.STARTING
    assert len(world.cloud.of("attach_volume")) == 2, "asked for once before it is read"
    world.cloud.volumes[volume_id] = free
    await agent.serve()
    assert world.cloud.volumes[volume_id].attached_to == instance_id


async def test_a_cancelled_start_does_not_attach_the_home(world: World) -> None:
    world.cloud.keeps_volumes = True
    world.cloud.fail("detach_volume", LOST)
    await stopped(world)
    cancelled = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim() is not None
    reads = len(world.cloud.of("volume"))
    await until(lambda: len(world.cloud.of("volume")) > reads)
    world.cloud.fail("terminate", CloudError("Unauthorized", "no", retryable=False), times=9999)
    await world.stop(cancelled)
    await world.state(cancelled, LeaseState.ENDED)
    await asyncio.sleep(5 * homes.ATTACH_PAUSE)
    tries = len(world.cloud.of("volume"))
    await world.watch_passes(3)
    assert len(world.cloud.of("volume")) == tries


async def test_a_lost_response_does_not_end_a_ready_server(world: World) -> None:
    refused = CloudError("AttachmentLimitExceeded", "No room for it.", retryable=False)
    gate = world.cloud.hold("attach_volume", after=True, then=refused)
    lease, _ = await world.ready(home_kind="ebs")
    gate.set()
    await world.settle()
    assert world.now(lease).state is LeaseState.READY


async def test_a_home_that_cannot_be_attached_fails_the_start_with_the_cause(
    world: World,
) -> None:
    refused = CloudError("AttachmentLimitExceeded", "No room for it.", retryable=False)
    world.cloud.fail("attach_volume", refused)
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    stop = await world.stop_of(lease)
    assert stop.message.startswith("Your home could not be attached: No room for it (")
    assert len(world.cloud.volumes) == 1
    await world.complete_passes(2)
    assert world.cloud.running() == []


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_response_fails_no_start_and_creates_no_second_volume(
    world: World, after: bool
) -> None:
    world.cloud.fail("create_volume", LOST, times=2, after=after)
    await world.ready(home_kind="ebs")
    assert len(world.cloud.volumes) == 1


async def test_a_volume_with_a_lost_response_is_used_by_the_next_start(world: World) -> None:
    await world.complete_passes(1)  # else the first scan of volumes finds it during this start
    world.cloud.fail("create_volume", LOST, times=9999, after=True)
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await world.state(lease, LeaseState.ENDED)
    await asyncio.gather(claim, return_exceptions=True)
    assert world.subnets("ada") == ("subnet-a",), "it may be there, so nowhere else is asked"
    await world.complete_passes(1)
    before = len(world.cloud.of("create_volume"))
    await world.restart()
    _, agent = await world.ready(home_kind="ebs")
    [volume] = world.cloud.volumes.values()
    assert volume.attached_to == agent.instance_id
    assert len(world.cloud.of("create_volume")) == before


async def test_a_zone_that_refused_a_volume_binds_no_home(world: World) -> None:
    full = CloudError("VolumeLimitExceeded", "No more volumes.", retryable=False)
    world.cloud.fail("create_volume", full)
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    assert "No more volumes" in (await world.stop_of(lease)).message
    assert world.subnets("ada") == ("subnet-a", "subnet-b")
    await world.complete_passes(1)
    await world.ready(home_kind="ebs")


async def test_an_instance_in_the_wrong_zone_is_replaced_by_one_in_the_homes(
    world: World,
) -> None:
    """An admin has put another volume in the place of the home's. A pass that is under way buys
    before the next one places the lease."""
    volume_id = await stopped(world)
    reconciler = world.provisioner._reconciler
    reconciler.controllers = [x for x in reconciler.controllers if not isinstance(x, Placement)]
    moved = replace(world.cloud.volumes[volume_id], zone="us-east-1b")
    world.cloud.volumes[volume_id] = moved
    lease = await world.request(home_kind="ebs")
    [first] = await world.boot()
    agent = Agent(world, first)
    assert await agent.claim() is not None
    await until(lambda: first not in world.cloud.running() and world.cloud.running())
    [second] = world.cloud.running()
    await Agent(world, second).serve()
    assert world.now(lease).state is LeaseState.READY
    assert world.cloud.machines[second].instance.zone == "us-east-1b"
    messages = [event.message for event in world.now(lease).events]
    assert "Your files are in us-east-1b; looking for a machine there" in messages


# --- a volume that somebody deleted ----------------------------------------------------------


async def test_a_volume_deleted_by_hand_is_reported_and_restored_from_the_newest_snapshot(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.restart(home=HomeRules(schedule=Schedule(every=3600, keep=3)))
    volume_id = await stopped(world)
    world.cloud.files[volume_id].add("notes")
    world.clock.advance(7200)
    await world.complete_passes(1)
    [snapshot_id] = world.cloud.snapshots
    world.clock.advance(1000)
    await world.complete_passes(2)
    del world.cloud.volumes[volume_id]

    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    message = (await world.stop_of(lease)).message
    assert f"{volume_id}, was deleted in EC2. There is a snapshot of it" in message
    assert snapshot_id in caplog.text
    await world.complete_passes(1)

    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    assert home.home_id in world.provisioner._state.homes.gone
    with pytest.raises(CloudError, match="no snapshot of this home"):
        await world.change_home(
            await world.provisioner.homes.plan_replacement(home, "snap-of-somebody-else")
        )
    await world.change_home(await world.provisioner.homes.plan_replacement(home, snapshot_id))
    _, agent = await world.ready(home_kind="ebs")
    [restored] = world.cloud.volumes.values()
    assert restored.attached_to == agent.instance_id
    assert world.cloud.files[restored.volume_id] == {"notes"}


async def test_a_new_volume_that_readings_lack_is_not_deleted(world: World) -> None:
    await world.restart(listing_lag=60.0)
    world.cloud.late_reads = homes.READINGS_UNTIL_GONE + 5
    _, agent = await world.ready(home_kind="ebs")
    [volume] = world.cloud.volumes.values()
    assert volume.attached_to == agent.instance_id


async def test_a_volume_that_a_server_has_used_is_deleted_after_ten_readings(world: World) -> None:
    await world.restart(listing_lag=60.0)
    del world.cloud.volumes[await stopped(world)]
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    await asyncio.gather(Agent(world, instance_id).claim(), return_exceptions=True)
    assert "was deleted in EC2" in (await world.stop_of(lease)).message


async def test_a_volume_that_an_admin_tagged_replaces_the_home(
    world: World,
) -> None:
    volume_id = await stopped(world)
    old = world.cloud.volumes.pop(volume_id)
    restored = replace(old, volume_id="vol-restored", zone="us-east-1b")
    world.cloud.volumes["vol-restored"] = restored
    world.cloud.files["vol-restored"] = set()
    await world.restart()
    await world.complete_passes(1)
    assert world.subnets("ada") == ("subnet-b",)
    await world.ready(home_kind="ebs")
    assert list(world.cloud.volumes) == ["vol-restored"]


@pytest.mark.parametrize("late_reads", [0, 5])
async def test_an_existing_volume_is_never_replaced(world: World, late_reads: int) -> None:
    """Not even where EC2's listing lags, and shows it only after some reads."""
    await stopped(world)
    world.cloud.late_reads = late_reads
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    with pytest.raises(CloudError, match="is there"):
        await world.change_home(await world.provisioner.homes.plan_replacement(home, ""))
    assert world.provisioner._state.homes.of("ada", "") == home


# --- size ------------------------------------------------------------------------------------


async def test_a_home_grows_on_request_and_never_shrinks(world: World) -> None:
    volume_id = await stopped(world)  # 20 GiB
    lease, agent = await world.ready(home_kind="ebs", home_gib=40)
    assert world.cloud.volumes[volume_id].size_gib == 40
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)

    for wanted, said in ((10, "cannot be made smaller"), (80, "too lately")):
        lease, agent = await world.ready(home_kind="ebs", home_gib=wanted)
        assert world.cloud.volumes[volume_id].size_gib == 40
        assert any(said in event.detail for event in lease.events)
        await world.stop(lease)
        await agent.event("stopped")
        await world.state(lease, LeaseState.ENDED)
        await world.complete_passes(1)

    world.clock.advance(6 * 3600)
    await world.ready(home_kind="ebs", home_gib=80)
    assert world.cloud.volumes[volume_id].size_gib == 80


async def test_a_hub_killed_after_a_resize_does_not_repeat_it(
    world: World,
) -> None:
    volume_id = await stopped(world)
    world.cloud.hold("modify_volume", after=True)
    lease = await world.request(home_kind="ebs", home_gib=40)
    [instance_id] = await world.boot()
    await Agent(world, instance_id).claim()
    await until(lambda: world.cloud.volumes[volume_id].size_gib == 40)
    await world.restart()
    world.cloud.end(instance_id)
    world.provisioner._recovery.take_up("ada", "", lease.lease_id)
    await until(lambda: world.cloud.running(), "another instance")
    agent = Agent(world, world.cloud.running()[-1])
    await agent.serve()
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    assert home.size_gib == 40
    assert len(world.cloud.of("modify_volume")) == 1
    assert not any("stays at" in event.detail for event in world.now(lease).events)


async def test_an_unstored_change_does_not_undo_a_later_one(world: World) -> None:
    await stopped(world)
    homes_ = world.provisioner._state.homes
    home = homes_.of("ada", "")
    assert home is not None
    world.run_sql(
        "CREATE TRIGGER no33 BEFORE UPDATE ON home WHEN NEW.size_gib = 33 BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    failed, later = await asyncio.gather(
        homes_.save(replace(home, size_gib=33)),
        homes_.save(replace(home, size_gib=44)),
        return_exceptions=True,
    )
    assert isinstance(failed, StoreError)
    assert homes_.of("ada", "") == later


async def test_a_new_home_has_the_configured_properties(world: World) -> None:
    await world.restart(home=HomeRules(volume_type="gp2", kms_key="alias/ours"))
    await world.ready(home_kind="ebs", home_gib=33)
    spec = world.cloud.of("create_volume")[-1].arguments[2]
    assert spec == VolumeSpec(33, volume_type="gp2", encrypted=True, kms_key="alias/ours")


async def test_an_instance_that_dies_is_replaced_in_the_zone_of_the_home(world: World) -> None:
    lease = await world.request(home_kind="ebs")
    [first] = await world.boot()
    agent = Agent(world, first)
    await agent.claim()
    await until(agent.home_is_here)
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1a"] = 0
    gate = world.cloud.hold("launch")
    world.cloud.end(first)
    await until(lambda: len(world.cloud.requests()) == 2)
    assert world.cloud.requests()[-1].spec.subnets == ("subnet-a",)
    world.cloud.capacity.clear()
    gate.set()
    [second] = await world.boot()
    await Agent(world, second).serve()
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.volumes) == 1


async def test_a_home_of_a_lost_store_is_refused_with_the_fix(world: World) -> None:
    volume_id = await stopped(world)
    before = world.cloud.volumes[volume_id]
    await world.kill()
    world.database = "another.sqlite"
    await world.start()
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    message = (await world.stop_of(lease)).message
    await asyncio.gather(claim, return_exceptions=True)
    assert volume_id in message
    assert f"{tags.STORE} to {world.store.store_id}" in message
    assert world.cloud.volumes == {volume_id: before}

    await world.cloud.tag([volume_id], {tags.STORE: world.store.store_id})
    await world.restart()
    await world.complete_passes(1)
    assert world.subnets("ada") == ("subnet-a",)
    await world.ready(home_kind="ebs")
    assert list(world.cloud.volumes) == [volume_id]


async def test_a_foreign_home_is_detected_after_a_failed_first_listing(
    world: World,
) -> None:
    volume_id = await stopped(world)
    await world.kill()
    world.database = "another.sqlite"
    world.cloud.fail("list_volumes", LOST)
    await world.start()
    await world.settle()
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    assert volume_id in (await world.stop_of(lease)).message
    await asyncio.gather(claim, return_exceptions=True)
    assert list(world.cloud.volumes) == [volume_id]


async def test_a_foreign_home_blocks_starts_until_it_is_deleted(world: World) -> None:
    volume_id = await stopped(world)
    await world.kill()
    world.database = "another.sqlite"
    await world.start()
    await world.settle()
    lease = await world.request(home_kind="ebs")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    assert volume_id in (await world.stop_of(lease)).message
    await asyncio.gather(claim, return_exceptions=True)
    await until(lambda: not world.cloud.running(), "its instance to end")
    del world.cloud.volumes[volume_id]
    await world.settle()  # a scan that ends after the jump puts the next one off
    world.clock.advance(SCAN_INTERVAL)
    await world.complete_passes(2)
    lease, _ = await world.ready(home_kind="ebs")
    assert lease.state is LeaseState.READY


async def test_a_server_without_a_home_is_not_bound_to_its_former_zone(
    world: World,
) -> None:
    """The admin changed `home` from ebs to none."""
    volume_id = await stopped(world)
    for market in Market:
        world.cloud.capacity[market, "g4dn.xlarge", "us-east-1a"] = 0
    subnets = world.provisioner.homes.subnets_for("ada", "", home_kind="none")
    assert subnets == ("subnet-a", "subnet-b")
    before = len(world.cloud.of("detach_volume"))
    lease = await world.request(home_kind="none", spec=replace(SPEC, subnets=subnets))
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    granted = await agent.claim()
    assert granted is not None
    assert granted.home is None
    await agent.event("ready")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    assert len(world.cloud.of("detach_volume")) == before
    assert world.cloud.volumes[volume_id].state == "available"


@pytest.mark.parametrize("reason", ["user", "idle", "lost", "failed", "interruption"])
async def test_no_termination_deletes_a_home(world: World, reason: str) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease, reason)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert [volume.state for volume in world.cloud.volumes.values()] == ["available"]


@pytest.mark.parametrize("delete_forever", [False, True])
async def test_the_home_of_a_deleted_user_is_deleted_only_where_the_admin_says_so(
    world: World,
    delete_forever: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the call of the spawner that JupyterHub makes."""
    await world.restart(home=HomeRules(delete_forever=delete_forever))
    volume_id, others = await stopped(world), await stopped(world, "bob")
    options = SimpleNamespace(home=SimpleNamespace(kind="ebs"))
    hub = SimpleNamespace(provisioner=world.provisioner, options=options)
    monkeypatch.setattr(service, "_service", hub)
    with caplog.at_level(logging.INFO):
        await EC2Spawner(user=fake_user("ada")).delete_forever()
    await world.complete_passes(2)
    assert (world.provisioner.homes.of("ada", "") is None) is delete_forever
    left = {others} if delete_forever else {others, volume_id}
    assert world.cloud.volumes.keys() == left
    said = f"deleting the home {volume_id}" if delete_forever else f"the home {volume_id} is kept"
    assert said in caplog.text

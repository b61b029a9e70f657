"""Temporary homes: deleted with their server, never copied; and no other home ever is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.provisioner.homes import snapshots
from ec2spawner.provisioner.homes.placement import placed
from ec2spawner.provisioner.instances.claims import InstanceUnwanted
from ec2spawner.provisioner.model.leases.lease import Home, Lease, LeaseState
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.provisioner.model.settings import HomeRules
from tests.unit.provisioner.world import SPEC, Agent, World, until

TEMPORARY: dict[str, Any] = {"home_kind": "ebs", "mounts": Mounts(temporary_home=True)}


def home_of(world: World, user: str = "ada") -> Home:
    home = world.provisioner._state.homes.of(user, "")
    assert home is not None
    return home


async def ended(world: World, **lease: Any) -> None:
    """A server that was ready and has stopped in order."""
    found, agent = await world.ready(**lease)
    await world.stop(found)
    await agent.event("stopped")
    await world.state(found, LeaseState.ENDED)


async def deletions(world: World) -> None:
    """Long enough for volumes to be deleted."""
    for _ in range(2):
        world.clock.advance(snapshots.RETRY_INTERVAL)
        await world.complete_passes(1)


async def test_a_temporary_home_is_deleted_with_its_server(world: World) -> None:
    await ended(world, **TEMPORARY)
    await deletions(world)
    assert world.provisioner._state.homes.of("ada", "") is None
    assert world.cloud.volumes == {}


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_files_that_stay_never_go_to_a_temporary_start(
    world: World, is_forgotten: bool
) -> None:
    """Even where the hub knows of them by their volume's tags only: it fails, and takes nothing."""
    await ended(world, home_kind="ebs")
    before = home_of(world)
    if is_forgotten:
        await world.provisioner._store.delete_home(before.home_id)
        await world.restart()
    lease = await world.request(**TEMPORARY)
    [instance_id] = await world.boot()
    with pytest.raises(InstanceUnwanted):
        await Agent(world, instance_id).claim()
    stopped = await world.stop_of(lease)
    assert "a home with files" in stopped.message
    await deletions(world)
    assert home_of(world).volume_id == before.volume_id
    assert not home_of(world).is_temporary
    assert world.cloud.volumes[str(before.volume_id)].attached_to is None


async def test_one_without_a_record_is_deleted(world: World) -> None:
    lease, agent = await world.ready(**TEMPORARY)
    world.provisioner._state.homes.load([])
    await world.provisioner.homes.list_volumes()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await deletions(world)
    assert world.cloud.volumes == {}


async def test_it_is_known_as_temporary_without_its_record(world: World) -> None:
    await world.ready(**TEMPORARY)
    left = home_of(world)
    records = world.provisioner._state.homes
    records.load([])
    await world.provisioner.homes.list_volumes()
    assert home_of(world).home_id == left.home_id
    assert home_of(world).is_temporary


async def test_a_temporary_home_binds_no_other_start_to_its_zone(world: World) -> None:
    """But its own, which may look for another machine."""
    lease, _ = await world.ready(**TEMPORARY)
    assert home_of(world).zone == "us-east-1a"
    assert world.provisioner.homes.subnets_for("ada", "") == SPEC.subnets
    assert placed(world.provisioner._state, lease)["spec"].subnets == ("subnet-a",)


async def test_it_stays_while_its_server_runs(world: World) -> None:
    await world.ready(**TEMPORARY)
    await deletions(world)
    assert home_of(world).is_temporary
    assert home_of(world).volume_id in world.cloud.volumes


async def test_a_hub_that_was_killed_deletes_it_afterwards(world: World) -> None:
    lease, agent = await world.ready(**TEMPORARY)
    await world.restart()
    assert home_of(world).is_temporary
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.restart()
    await deletions(world)
    assert world.cloud.volumes == {}


async def test_a_start_that_is_cancelled_leaves_no_home(world: World) -> None:
    gate = world.cloud.hold("create_volume")
    lease = await world.request(**TEMPORARY)
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim(10.0) is None, "it waits for its home"
    await until(lambda: world.cloud.of("create_volume"), "the home to be made")
    world.silence_agents()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    gate.set()
    await deletions(world)
    assert world.cloud.volumes == {}


async def test_files_that_stay_never_go_to_a_temporary_home(world: World) -> None:
    """One that is about to be deleted is given up first."""
    lease, _ = await world.ready(**TEMPORARY)
    left = home_of(world)
    ordinary: Lease = replace(lease, mounts=Mounts())
    home = await world.provisioner.homes.volumes.ensure_volume(ordinary, left.zone or "")
    assert not home.is_temporary
    assert home.volume_id != left.volume_id


@pytest.mark.parametrize("is_temporary", [True, False])
async def test_it_is_never_copied(world: World, is_temporary: bool) -> None:
    hourly = HomeRules(schedule=Schedule(every=3600, keep=3))
    await world.restart(home=hourly, agent_silent_after=1e6)
    await world.ready(**(TEMPORARY if is_temporary else {"home_kind": "ebs"}))
    world.clock.advance(3600)
    await world.complete_passes(1)
    assert home_of(world).is_temporary is is_temporary
    assert (world.cloud.snapshots == {}) is is_temporary

"""Temporary homes: deleted with their server, never copied; and no other home ever is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core.homes.snapshot_schedule import Schedule
from ec2spawner.provisioner.homes import snapshots
from ec2spawner.provisioner.model.lease import Home, Lease, LeaseState
from ec2spawner.provisioner.model.mounts import Mounts
from ec2spawner.provisioner.model.settings import HomeRules
from tests.unit.provisioner.world import Agent, World, until

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


async def test_a_home_that_was_there_before_stays(world: World) -> None:
    """Even a lease that says otherwise takes nothing of it."""
    await ended(world, home_kind="ebs")
    before = home_of(world)
    await ended(world, **TEMPORARY)
    await deletions(world)
    assert home_of(world).volume_id == before.volume_id
    assert before.volume_id in world.cloud.volumes


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
    assert await Agent(world, instance_id).claim() is None, "it waits for its home"
    await until(lambda: world.cloud.of("create_volume"), "the home to be made")
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

"""A server gets another name: its files and what is kept for it follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tornado.web import HTTPError

from ec2spawner.core import tags
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.hub.app.server_rename import rename_server
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Home, LeaseState
from tests.unit.provisioner.world import World, until


async def stopped(world: World, server: str) -> Home:
    """A home, of a server that was started and stopped."""
    lease, agent = await world.ready(server=server, home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "the instance ends")
    home = world.provisioner._state.homes.of("ada", server)
    assert home is not None
    return home


def tagged_server(world: World) -> str:
    [volume] = world.cloud.volumes.values()
    return volume.tags[tags.SERVER]


async def rename(world: World, server: str, new: str, home_kind: str = "ebs") -> None:
    await rename_server(world.provisioner, home_kind, "ada", server, new)


async def test_a_home_follows_its_server_with_its_tags(world: World) -> None:
    home = await stopped(world, "old")
    await rename(world, "old", "new")
    homes = world.provisioner._state.homes
    assert homes.of("ada", "old") is None
    await until(lambda: tagged_server(world) == "new", "the tags")
    _, changed = world.cloud.of("tag")[-1].arguments
    allowed = {tags.SERVER, tags.USER, tags.NAME, tags.PAYER}
    assert changed.keys() == allowed, "the hub's policy allows no more"
    assert changed[tags.PAYER] == "user:ada"

    await homes.save(replace(home, used_at=world.clock()))
    assert homes.of("ada", "old") is None, "work in progress does not restore it"
    await world.restart()
    _, agent = await world.ready(server="new", home_kind="ebs")
    assert agent.home_is_here()
    assert list(world.cloud.volumes) == [home.volume_id]


async def test_changes_saved_during_a_rename_have_the_new_name(world: World) -> None:
    home = await stopped(world, "old")
    renaming = asyncio.create_task(rename(world, "old", "new"))
    await asyncio.sleep(0)  # its write has begun
    await world.provisioner._state.homes.save(replace(home, used_at=world.clock()))
    await renaming
    await world.restart()
    assert world.provisioner._state.homes.of("ada", "old") is None
    assert world.provisioner._state.homes.of("ada", "new") is not None


@pytest.mark.parametrize("table", ["home", "kept"])
async def test_a_rename_that_cannot_be_stored_leaves_the_files_where_they_were(
    world: World, table: str
) -> None:
    linger = AfterStop("linger", 600.0)
    lease, agent = await world.ready(server="old", home_kind="ebs", after_stop=linger)
    await agent.heartbeat()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.settle()
    home = world.provisioner._state.homes.of("ada", "old")
    world.run_sql(
        f"CREATE TRIGGER away BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(HTTPError) as refusal:
        await rename(world, "old", "new")
    assert refusal.value.status_code == 503
    assert world.provisioner._state.homes.of("ada", "old") == home
    assert world.provisioner._state.homes.of("ada", "new") is None
    world.run_sql("DROP TRIGGER away")
    await rename(world, "old", "new")
    assert world.provisioner._state.homes.of("ada", "new") is not None


async def test_tags_that_could_not_be_set_follow_later(world: World) -> None:
    await stopped(world, "old")
    before = len(world.cloud.of("tag"))
    world.cloud.fail("tag", CloudError("RequestLimitExceeded", "later", retryable=True))
    await rename(world, "old", "new")
    await until(lambda: len(world.cloud.of("tag")) > before, "tried")
    assert tagged_server(world) == "old"
    await world.provisioner.homes.list_volumes()
    assert tagged_server(world) == "new"


async def test_retained_instances_follow_a_rename(world: World) -> None:
    linger = AfterStop("linger", 600.0)
    lease, agent = await world.ready(server="old", after_stop=linger)
    await agent.heartbeat()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await rename(world, "old", "new")
    again = await world.request(server="new", after_stop=linger)
    assert (await agent.serve()).lease_id == again.lease_id


async def test_a_name_with_existing_files_is_refused(world: World) -> None:
    await stopped(world, "old")
    await stopped(world, "new")
    with pytest.raises(HTTPError) as refusal:
        await rename(world, "old", "new")
    assert refusal.value.status_code == 409
    assert world.provisioner._state.homes.of("ada", "old") is not None


async def test_no_rename_leaves_files_behind(world: World) -> None:
    with pytest.raises(HTTPError, match="EFS"):
        await rename(world, "old", "new", home_kind="efs")
    lease, _ = await world.ready(server="old", home_kind="ebs")
    await world.stop(lease)
    with pytest.raises(HTTPError, match="still stopping"):
        await rename(world, "old", "new")

"""Servers that outlive the hub's store, and unclaimed leases."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ec2spawner.config import validate_options
from ec2spawner.core import tags
from ec2spawner.core.names import sha256_hex
from ec2spawner.hub.app import service
from ec2spawner.hub.security.sealed_start import NotebookStart, Seal
from ec2spawner.provisioner.lifecycle.recovery import SavedServer, saved
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.volume import Volume
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.spawner import EC2Spawner
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until
from tests.user_accounts import fake_user

LOST = CloudError("ReadTimeoutError", "no answer", retryable=True)


async def kept_by_jupyterhub(world: World, lease: Lease) -> SavedServer:
    kept = saved(lease, world.provisioner._state.homes.of(lease.user, lease.server))
    return SavedServer.model_validate_json(kept.model_dump_json())


async def lose_store(world: World) -> None:
    await world.kill()
    world.database = "another.sqlite"
    await world.start()
    await world.provisioner._state.instances.first_listing(TIMEOUT)


async def test_state_stored_by_jupyterhub_holds_no_secret(world: World) -> None:
    lease, agent = await world.ready()
    granted = await agent.claim()
    assert granted is not None
    text = (await kept_by_jupyterhub(world, lease)).model_dump_json()
    assert granted.token not in text
    assert agent.key not in text


async def test_a_server_is_rebuilt_after_its_store_is_lost(world: World) -> None:
    world.cloud.prices = {("g4dn.xlarge", "us-east-1a"): 0.20}
    await until(lambda: world.provisioner.market.prices._spot)
    lease, agent = await world.ready(home_kind="ebs")
    granted = await agent.claim()
    kept = await kept_by_jupyterhub(world, lease)
    await agent.heartbeat_often(1800)
    await lose_store(world)
    await until(lambda: world.provisioner.market.prices._spot)
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id], "it is another store's until then"

    rebuilt = await world.provisioner._recovery.rebuild("ada", "", kept)
    assert rebuilt is not None
    assert granted is not None
    assert rebuilt.token_sha256 == sha256_hex(granted.token)
    assert (rebuilt.url, rebuilt.instance_id) == (lease.url, lease.instance_id)
    assert (await agent.heartbeat()).cost.usd is None, "the size of its disk is to be read"
    root = Volume(
        "vol-root", "us-east-1a", 90, "in-use", agent.instance_id, {tags.HUB: world.settings.hub}
    )
    world.cloud.volumes[root.volume_id] = root
    await world.provisioner.market.prices.refresh()
    await world.complete_passes(2)
    del world.cloud.volumes[root.volume_id]
    cost = (await agent.heartbeat()).cost
    assert cost.since == world.cloud.machines[agent.instance_id].instance.launched_at
    assert cost.usd == pytest.approx(0.10 + 0.01 / 2, abs=1e-3)
    counted = world.provisioner._state.spending.since_begin(world.provisioner._state.leases)
    assert counted == 0, "another process has counted that"

    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id]
    assert world.cloud.tags(agent.instance_id)[tags.STORE] == world.store.store_id
    [volume] = world.cloud.volumes.values()
    assert volume.tags[tags.STORE] == world.store.store_id
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    assert (home.volume_id, home.zone) == (volume.volume_id, "us-east-1a")

    await world.restart()
    assert world.now(lease).state is LeaseState.READY, "and is kept from then on"
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []
    await world.ready(home_kind="ebs")
    assert len(world.cloud.volumes) == 1


class Spawners:
    """JupyterHub's spawner of ada's server, as each process of the hub has a new one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.secret = b"x" * 32
        self.state: dict[str, Any] = {}
        """What JupyterHub stores."""

    def sealed(self, api_token: str) -> str:
        return Seal(self.secret).close(NotebookStart({}, [], api_token, "/user/ada/"))

    def new(self, state: Mapping[str, Any]) -> EC2Spawner:
        """The one of a hub that has just started, with what JupyterHub has stored."""
        raw = {"region": "us-east-1", "subnets": list(SPEC.subnets)}
        options = validate_options(raw, cleanup_servers=False, environ={})
        accounts = self.world.provisioner.accounts
        running = service.HubService(options, Seal(self.secret), None, accounts)
        service.publish(running)
        running.started(self.world.provisioner)
        user = fake_user("ada", url="/user/ada/", settings={"cookie_secret": self.secret})
        spawner = EC2Spawner(user=user)
        spawner.load_state(state)
        spawner._check_pending = True
        return spawner


@pytest.fixture
def spawners(world: World) -> Iterator[Spawners]:
    yield Spawners(world)
    service.publish(None)


async def test_lost_store_ends_no_server_for_jupyterhub(world: World, spawners: Spawners) -> None:
    """`poll` of a spawner that knows its server by JupyterHub's state alone."""
    lease, agent = await world.ready(sealed_start=spawners.sealed("token-of-ada"))
    before = spawners.new({})
    assert await before.poll() is None
    state = before.get_state()
    await lose_store(world)

    spawner = spawners.new(state)
    assert await spawner.poll() is None
    assert (spawner.lease_id, spawner.api_token) == (lease.lease_id, "token-of-ada")
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert world.cloud.running() == [agent.instance_id]

    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)
    assert await spawner.poll() == 0


async def test_a_server_is_not_gone_while_no_listing_says_so(
    world: World, spawners: Spawners
) -> None:
    await world.ready(sealed_start=spawners.sealed("token-of-ada"))
    before = spawners.new({})
    assert await before.poll() is None
    state = before.get_state()
    await world.kill()
    world.database = "another.sqlite"
    world.cloud.fail("list_instances", LOST, times=1000)
    await world.start()
    spawner = spawners.new(state)
    assert await spawner.poll() is None
    assert world.provisioner.lease(spawner.lease_id) is None
    world.cloud._faults["list_instances"].clear()
    assert await spawner.poll() is None
    assert world.provisioner.lease(spawner.lease_id) is not None


async def test_a_rebuilt_server_is_tagged_although_that_fails_at_first(world: World) -> None:
    lease, agent = await world.ready()
    kept = await kept_by_jupyterhub(world, lease)
    await lose_store(world)
    world.cloud.fail("tag", LOST, times=3)
    assert await world.provisioner._recovery.rebuild("ada", "", kept) is not None
    own = world.store.store_id
    await until(lambda: world.cloud.tags(agent.instance_id)[tags.STORE] == own)
    assert world.cloud.running() == [agent.instance_id]


async def test_terminated_or_foreign_instances_are_not_recovered(world: World) -> None:
    lease, agent = await world.ready()
    kept = await kept_by_jupyterhub(world, lease)
    rebuild = world.provisioner._recovery.rebuild
    assert await rebuild("ada", "", kept.model_copy(update={"instance_id": "i-1"})) is None
    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)
    await lose_store(world)
    await world.complete_passes(1)
    assert await world.provisioner._recovery.rebuild("ada", "", kept) is None


async def test_an_old_copy_of_the_store_ends_no_unknown_server(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.kill()
    copy = world.folder / "backup.sqlite"
    shutil.copy(world.folder / world.database, copy)
    await world.start()
    leases = await world.many_ready(5)
    await until(lambda: all(tags.LEASE in world.cloud.tags(i) for i in world.cloud.running()))
    kept = await kept_by_jupyterhub(world, leases[0])
    await world.kill()
    world.database = copy.name
    await world.start()
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 5
    assert await world.provisioner._recovery.rebuild("user-0", "", kept) is not None
    with caplog.at_level(logging.CRITICAL):
        world.clock.advance(world.settings.recovery_grace)
        await world.complete_passes(3)
    assert len(world.cloud.running()) == 5
    assert "BRAKE: 4 servers" in caplog.text


async def test_a_clock_change_does_not_shorten_the_grace_period(world: World) -> None:
    leases = await world.many_ready(2)
    await world.restart()
    world.clock.jump(86400)
    await world.complete_passes(2)
    assert all(world.now(lease).state is LeaseState.READY for lease in leases)
    assert len(world.cloud.running()) == 2


async def test_an_instance_of_an_unknown_lease_ends_after_the_grace_period(
    world: World,
) -> None:
    await world.kill()
    copy = world.folder / "backup.sqlite"
    shutil.copy(world.folder / world.database, copy)
    await world.start()
    _, agent = await world.ready()
    await until(lambda: tags.LEASE in world.cloud.tags(agent.instance_id))
    await world.kill()
    world.database = copy.name
    await world.start()
    world.clock.advance(world.settings.recovery_grace - 1)
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id]
    world.clock.advance(1)
    await world.complete_passes(2)
    assert world.cloud.running() == []


# --- unclaimed leases ---


async def test_an_unclaimed_lease_ends_after_the_grace_period(world: World) -> None:
    world.silence_agents()
    forgotten, _ = await world.ready("forgotten")
    asked_for, agent = await world.ready("asked-for")
    await world.restart()
    assert world.provisioner._recovery.take_up("asked-for", "", "") == asked_for
    world.clock.advance(world.settings.recovery_grace - 1)
    await world.complete_passes(2)
    assert world.now(forgotten).state is LeaseState.READY
    await agent.heartbeat()
    world.clock.advance(1)
    stop = await world.stop_of(forgotten)
    assert (stop.reason, stop.message) == ("hub", "The hub no longer knew this server")
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id]


async def test_many_unclaimed_leases_are_kept_with_one_alert(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.silence_agents()
    leases = await world.many_ready(5)
    await world.restart()
    with caplog.at_level(logging.CRITICAL):
        world.clock.advance(world.settings.recovery_grace)
        await world.watch_passes(4)
    assert {world.now(lease).state for lease in leases} == {LeaseState.READY}
    assert caplog.text.count("BRAKE") == 1
    for lease in leases[:3]:
        world.provisioner._recovery.take_up(lease.user, "", lease.lease_id)
    for lease in leases[3:]:
        await world.state(lease, LeaseState.ENDED)
    assert {world.now(lease).state for lease in leases[:3]} == {LeaseState.READY}


async def test_many_forgotten_starts_are_ended_without_a_limit(world: World) -> None:
    leases = [await world.request(f"user-{n}") for n in range(6)]
    await world.boot(6)
    await Agent(world, world.cloud.running()[0]).claim()
    await world.restart()
    world.clock.advance(world.settings.recovery_grace)
    for lease in leases:
        await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert world.cloud.running() == []

"""What JupyterHub knows of servers that continue on another instance is brought up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm, roles
from jupyterhub.objects import Hub, Server
from jupyterhub.spawner import SpawnException
from jupyterhub.user import User, UserDict
from sqlalchemy import event
from tornado.web import HTTPError
from traitlets.config import Config

from ec2spawner import spawner as spawners
from ec2spawner.config import validate_options
from ec2spawner.hub.app import resume, service
from ec2spawner.hub.app.resume import Resumes
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.app.user_rename import RENAMED
from ec2spawner.hub.security.sealed_start import NotebookStart, Seal
from ec2spawner.hub.spawn.notebook_port import NotebookNotReached
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import Market
from tests.unit.provisioner.lifecycle.test_continuation import (
    RESUME,
    boot_for,
    notice,
    successor,
)
from tests.unit.provisioner.world import Agent, World, until

SECRET = b"x" * 32
CHOSEN = {"profile": "withdrawn"}
"""What the user chose once; no profile has this name any more."""


class Proxy:
    """Of JupyterHub's proxy as much as a start without a request uses."""

    def __init__(self) -> None:
        self.routes: list[str] = []
        self.error: Exception | None = None

    async def add_user(self, user: User, server: str) -> None:
        if self.error is not None:
            raise self.error
        self.routes.append(f"{user.name}/{server}")


class JupyterHubByHand:
    """JupyterHub's users and servers, with its database, but no process of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.db = orm.new_session_factory("sqlite://")()
        for role in roles.get_default_roles():
            roles.create_role(self.db, role)
        self.db.add(orm.OAuthClient(identifier="jupyterhub"))
        self.db.commit()
        self.config = Config()
        settings = {
            "spawner_class": EC2Spawner,
            "cookie_secret": SECRET,
            "config": self.config,
            "base_url": "/",
            "hub": Hub(base_url="/hub/"),
        }
        self.users = UserDict(lambda: self.db, settings)
        self.proxy = Proxy()
        options = validate_options(
            {"region": "us-east-1", "subnets": ["subnet-a"], "profile_list": [CPU]},
            cleanup_servers=False,
            environ={},
        )
        accounts = world.provisioner.accounts
        self.service = service.HubService(options, Seal(SECRET), None, accounts)
        service.publish(self.service)
        self.service.started(world.provisioner)
        app: Any = SimpleNamespace(users=self.users, proxy=self.proxy)
        self.resumes = Resumes(app, self.service, world.provisioner)

    def add(self, name: str) -> User:
        found = orm.User(name=name)
        self.db.add(found)
        self.db.commit()
        roles.assign_default_roles(self.db, found)
        found._orm_spawners.append(orm.Spawner(name="", user_options=CHOSEN))
        self.db.commit()
        return self.users[name]

    def rename(self, user: User, name: str) -> None:
        """As `PATCH /users/{name}`."""
        user.name = name
        self.db.commit()

    def runs(self, user: User, lease: Lease) -> EC2Spawner:
        """JupyterHub has started this server."""
        spawner: EC2Spawner = user.spawners[""]
        self.db.add(server := orm.Server(base_url=f"/user/{user.name}/"))
        self.db.commit()
        spawner.server = Server(orm_server=server)
        self.db.commit()
        spawner.lease_id, spawner._recovered = lease.lease_id, True
        self.service.spawners[lease.lease_id] = spawner
        return spawner

    def has_seen_it_stop(self, user: User) -> None:
        """As `User.stop` leaves a server that resumes."""
        user.spawners[""].server = None
        user.spawners.pop("")
        self.db.commit()

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """What is sent to JupyterHub's database meanwhile."""
        seen: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            seen.append(statement)

        event.listen(self.db.get_bind(), "before_cursor_execute", note)
        yield seen
        event.remove(self.db.get_bind(), "before_cursor_execute", note)

    async def started(self, user: User) -> str:
        """The lease under which the start in progress has ended. Raises its error."""
        spawner = user.spawners[""]
        await asyncio.wait({spawner._spawn_future})
        spawner._spawn_future.result() if spawner._spawn_future else None
        lease_id: str = spawner.lease_id
        return lease_id

    def close(self) -> None:
        for user in self.users.values():
            for spawner in user.spawners.values():
                spawner.stop_polling()
        service.publish(None)
        self.db.close()


CPU = {"display_name": "CPU", "slug": "cpu", "instance_types": ["t3.medium"]}


@pytest.fixture
async def hub(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JupyterHubByHand]:
    """No notebook listens: whoever waits for one finds it."""

    async def found(*_: Any) -> None: ...

    monkeypatch.setattr(spawners, "check_notebook_port", found)
    monkeypatch.setattr(User, "_wait_up", found)
    running = JupyterHubByHand(world)
    yield running
    running.close()


async def runs(world: World, user: str = "ada", **changes: Any) -> tuple[Lease, Agent]:
    """A server with a session that can be saved."""
    sealed = Seal(SECRET).close(NotebookStart({}, ["jupyter"], f"token-{user}", f"/user/{user}/"))
    return await world.ready(user, sleep=RESUME, sealed_start=sealed, **changes)


async def leaves(world: World, lease: Lease, agent: Agent) -> Agent:
    """The server stops on its old instance; the agent of the next one, which has not claimed."""
    await notice(world, agent)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())
    await world.state(lease, LeaseState.ENDING)
    claim.cancel()
    await agent.event("stopped")
    return other


# --- what a look costs ---


async def test_servers_that_have_moved_cost_no_query_and_leave_the_loop_to_others(
    world: World, hub: JupyterHubByHand
) -> None:
    leases = [await world.request(f"u{n}", continues=f"before-{n}") for n in range(BATCH + 1)]
    await world.boot(len(leases))
    await asyncio.gather(*(Agent(world, each).serve() for each in world.cloud.running()))
    for lease in leases:
        hub.runs(hub.add(lease.user), lease)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    with hub.statements() as statements:
        await hub.resumes.reconcile()
    task.cancel()

    assert statements == []
    assert turns == 1
    assert {world.now(lease).state for lease in leases} == {LeaseState.READY}


async def test_a_lease_that_ended_lately_is_found_without_a_search(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, agent = await world.ready()
    await world.stop(first)
    await agent.event("stopped")
    await world.state(first, LeaseState.ENDED)
    registry = world.provisioner._state.leases
    registry.forget(world.now(first))

    def searched() -> None:
        raise AssertionError("all leases are searched")

    monkeypatch.setattr(registry, "_remembered", searched)
    found = registry.remembered(first.lease_id)
    assert found is not None
    assert found == registry.last_ended("ada", "")
    assert registry.remembered("lease-unknown") is None


async def test_the_lease_of_an_earlier_run_is_remembered_no_longer(world: World) -> None:
    ended = []
    for _ in range(2):
        lease, agent = await world.ready()
        await world.stop(lease)
        await agent.event("stopped")
        await world.state(lease, LeaseState.ENDED)
        await world.settle()
        world.provisioner._state.leases.forget(world.now(lease))
        ended.append(lease.lease_id)
    registry = world.provisioner._state.leases
    assert [registry.knows(each) for each in ended] == [False, True]

    await world.restart()
    registry = world.provisioner._state.leases
    assert registry.remembered(ended[1]) == registry.last_ended("ada", "") is not None

    world.clock.advance(1)
    registry.forget_last_ended(world.clock())
    assert not registry.knows(ended[1])
    assert registry.last_ended("ada", "") is None


# --- users who are renamed or deleted ---


async def test_a_server_that_has_moved_outlives_a_rename_of_its_user(
    world: World, hub: JupyterHubByHand
) -> None:
    lease, _ = await runs(world, continues="lease-before")
    user = hub.add("ada")
    hub.runs(user, lease)
    await hub.resumes.reconcile()

    hub.rename(user, "eve")
    hub.add("ada")  # another person's account
    await hub.resumes.reconcile()
    await world.settle()

    assert world.now(lease).state is LeaseState.READY
    assert hub.users["ada"].spawners[""].lease_id == ""


@pytest.mark.parametrize("is_seen_before_the_rename", [False, True])
async def test_the_server_of_a_user_whose_name_has_changed_does_not_continue(
    world: World, hub: JupyterHubByHand, is_seen_before_the_rename: bool
) -> None:
    """Its notebook has the earlier name: JupyterHub would find nothing at the new address."""
    lease, agent = await runs(world)
    user = hub.add("ada")
    hub.runs(user, lease)
    await notice(world, agent)
    other = await boot_for(world, lease)
    if is_seen_before_the_rename:
        await hub.resumes.reconcile()
    hub.rename(user, "eve")
    await hub.resumes.reconcile()
    claim = asyncio.create_task(other.claim())
    await world.state(lease, LeaseState.ENDING)
    claim.cancel()
    await agent.event("stopped")

    hub.has_seen_it_stop(user)
    await hub.resumes.reconcile()
    assert user.spawners[""].pending == "spawn"

    with pytest.raises(SpawnError):
        await hub.started(user)
    stop = await world.stop_of(successor(world, lease))
    assert stop.message == f"It could not continue: {RENAMED.message}"
    assert hub.proxy.routes == []


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_move_of_a_deleted_user_ends(
    world: World, hub: JupyterHubByHand, is_replaced: bool
) -> None:
    lease, agent = await runs(world)
    user = hub.add("ada")
    hub.runs(user, lease)
    await notice(world, agent)
    await boot_for(world, lease)
    await hub.resumes.reconcile()
    deleted = user.id

    hub.has_seen_it_stop(user)
    hub.users.delete(user)
    if is_replaced:
        assert hub.add("ada").id == deleted, "both have the same id"
    await hub.resumes.reconcile()

    stopping = await world.state(successor(world, lease), LeaseState.ENDING, LeaseState.ENDED)
    assert stopping.stop is not None
    assert (stopping.stop.reason, stopping.stop.message) == (
        "hub",
        "Its user or server was deleted",
    )


async def test_a_server_that_has_moved_ends_with_its_deleted_user(
    world: World, hub: JupyterHubByHand
) -> None:
    lease, _ = await runs(world, continues="lease-before")
    user = hub.add("ada")
    hub.runs(user, lease)
    await hub.resumes.reconcile()
    assert world.now(lease).state is LeaseState.READY

    hub.users.delete(user)  # by a script of the admin: JupyterHub itself stops the server before
    await hub.resumes.reconcile()

    stopping = await world.state(lease, LeaseState.ENDING, LeaseState.ENDED)
    assert stopping.stop is not None
    assert (stopping.stop.reason, stopping.stop.message) == (
        "hub",
        "Its user or server was deleted",
    )


# --- what refuses to start it again ---


async def test_options_that_are_refused_by_now_do_not_end_a_server_that_moves(
    world: World, hub: JupyterHubByHand
) -> None:
    lease, agent = await runs(world)
    user = hub.add("ada")
    other = await leaves(world, lease, agent)

    await hub.resumes.reconcile()
    await other.serve()

    assert await hub.started(user) == successor(world, lease).lease_id
    assert user.spawners[""].ready
    assert hub.db.query(orm.Spawner).one().user_options == CHOSEN


async def test_options_are_checked_again_at_the_next_start(
    world: World, hub: JupyterHubByHand
) -> None:
    hooks: list[EC2Spawner] = []
    hub.config.EC2Spawner.pre_spawn_hook = hooks.append
    user = hub.add("ada")
    with pytest.raises(SpawnError, match="withdrawn"):
        await user.spawn("")
    assert hooks == [], "no more of the start is done"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HTTPError(403, "ada has left the %s", "course"), "ada has left the course"),
        (SpawnException("not in %", reason="x", log_message="for the log"), "not in %"),
        (TimeoutError(), "TimeoutError"),
    ],
)
async def test_a_hook_that_refuses_is_named_as_the_reason(
    world: World, hub: JupyterHubByHand, error: Exception, words: str
) -> None:
    def refuse(_spawner: EC2Spawner) -> None:
        raise error

    hub.config.EC2Spawner.pre_spawn_hook = refuse
    lease, agent = await runs(world)
    user = hub.add("ada")
    await leaves(world, lease, agent)

    await hub.resumes.reconcile()
    with pytest.raises(type(error)):
        await hub.started(user)

    stop = await world.stop_of(successor(world, lease))
    assert (stop.reason, stop.sleep) == ("failed", None), "there is no session yet"
    assert stop.message.endswith(f"It could not continue: {words}")
    assert hub.db.query(orm.Spawner).one().user_options == CHOSEN
    assert hub.db.query(orm.APIToken).count() == 0


async def test_a_server_that_ends_while_a_hook_is_awaited_starts_no_other(
    world: World, hub: JupyterHubByHand
) -> None:
    awaited, is_over = asyncio.Event(), asyncio.Event()

    async def hold(_spawner: EC2Spawner) -> None:
        awaited.set()
        await is_over.wait()

    hub.config.EC2Spawner.pre_spawn_hook = hold
    lease, agent = await runs(world)
    user = hub.add("ada")
    user.spawners[""].orm_spawner.user_options = {"profile": "cpu"}  # which is offered
    other = await leaves(world, lease, agent)
    await hub.resumes.reconcile()
    await awaited.wait()

    for market in Market:
        world.cloud.sell_out(market)
    for each in (agent, other):
        world.cloud.end(each.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    stop = await world.stop_of(successor(world, lease))
    launches = len(world.cloud.requests())
    is_over.set()
    with pytest.raises(SpawnError, match="there was no other"):
        await hub.started(user)
    await hub.resumes.reconcile()

    assert "there was no other" in stop.message
    assert world.now(successor(world, lease)).stop == stop
    assert len(world.cloud.requests()) == launches
    assert world.provisioner.lease_of("ada", "") is None
    assert hub.db.query(orm.APIToken).count() == 0


async def test_a_notebook_that_jupyterhub_cannot_reach_saves_its_session(
    world: World, hub: JupyterHubByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(self: User, spawner: EC2Spawner) -> None:
        # As JupyterHub's own does it.
        try:
            raise TimeoutError("Server at http://10.0.0.1 didn't respond in 60 seconds")
        except TimeoutError:
            await self.stop(spawner.name)
            raise
        finally:
            spawner._waiting_for_response = spawner._start_pending = False

    monkeypatch.setattr(User, "_wait_up", unreachable)
    lease, agent = await runs(world)
    user = hub.add("ada")
    other = await leaves(world, lease, agent)

    await hub.resumes.reconcile()
    await other.serve()
    found = successor(world, lease)
    stopping = await world.state(found, LeaseState.ENDING)
    await other.event("stopped")
    with pytest.raises(TimeoutError):
        await hub.started(user)

    stop = stopping.stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("failed", "user", 300.0)
    words = "It could not continue: Server at http://10.0.0.1 didn't respond in 60 seconds"
    assert stop.message == words


@pytest.mark.parametrize("missing", ["route", "log-in"])
async def test_a_server_that_nobody_could_open_saves_its_session(
    world: World, hub: JupyterHubByHand, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    error = HTTPError(503, "this is away")
    if missing == "route":
        hub.proxy.error = error
    else:

        async def fails(_spawner: Any) -> None:
            raise error

        monkeypatch.setattr(resume, "renew_client", fails)
    lease, agent = await runs(world)
    user = hub.add("ada")
    other = await leaves(world, lease, agent)

    await hub.resumes.reconcile()
    await other.serve()
    stopping = await world.state(successor(world, lease), LeaseState.ENDING)
    await other.event("stopped")
    with pytest.raises(HTTPError, match="this is away"):
        await hub.started(user)
    assert not user.spawners[""].ready

    stop = stopping.stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("failed", "user", 300.0)
    assert "this is away" in stop.message


async def test_a_port_that_the_hub_cannot_reach_saves_the_session(
    world: World, hub: JupyterHubByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(_url: str) -> None:
        raise NotebookNotReached("10.0.0.1", 8888)

    monkeypatch.setattr(spawners, "check_notebook_port", closed)
    lease, agent = await runs(world)
    user = hub.add("ada")
    other = await leaves(world, lease, agent)

    await hub.resumes.reconcile()
    await other.serve()
    stopping = await world.state(successor(world, lease), LeaseState.ENDING)
    await other.event("stopped")
    with pytest.raises(SpawnError):
        await hub.started(user)

    stop = stopping.stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("failed", "user", 300.0)
    assert "the hub does not reach it at 10.0.0.1:8888" in stop.message


async def test_a_renamed_user_who_is_refused_ends_nobody_elses_server(
    world: World, hub: JupyterHubByHand
) -> None:
    def refuse(_spawner: EC2Spawner) -> None:
        raise HTTPError(403, "not this term")

    hub.config.EC2Spawner.pre_spawn_hook = refuse
    others, _ = await runs(world, "eve")  # whose user is called otherwise by now
    lease, agent = await runs(world)
    user = hub.add("ada")
    hub.runs(user, lease)
    await notice(world, agent)
    await until(lambda: len(world.cloud.running()) == 3, "another instance")
    await hub.resumes.reconcile()
    hub.rename(user, "eve")
    await agent.event("stopped")
    world.clock.advance(120)  # EC2 reclaims the instance
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    hub.has_seen_it_stop(user)

    await hub.resumes.reconcile()
    with pytest.raises(HTTPError, match="not this term"):
        await hub.started(user)

    assert (await world.stop_of(successor(world, lease))).message.endswith("not this term")
    assert world.now(others).state is LeaseState.READY


async def test_its_user_stops_a_server_that_moves(world: World, hub: JupyterHubByHand) -> None:
    lease, agent = await runs(world)
    user = hub.add("ada")
    await leaves(world, lease, agent)
    await hub.resumes.reconcile()
    spawner = user.spawners[""]
    await until(lambda: spawner.lease_id, "its start")

    starting = spawner._spawn_future
    starting.cancel()  # as JupyterHub's handler of a stop
    await asyncio.wait({starting})
    await user.stop("")

    stop = await world.stop_of(successor(world, lease))
    assert "It was stopped from the hub" in stop.message
    assert "could not continue" not in stop.message

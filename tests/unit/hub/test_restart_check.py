"""The check of a server that ran when the hub ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.scopes import Scope
from tornado.web import HTTPError

from ec2spawner.config import validate_options
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.api.jupyterhub_server_api import ServerHandler
from ec2spawner.hub.app import restart_check, service
from ec2spawner.hub.app.restart_check import RestartCheck
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.spawner import EC2Spawner
from tests.unit.provisioner.world import Agent, World, until
from tests.user_accounts import fake_user

pytestmark = pytest.mark.virtual_time


class Checked(SimpleNamespace):
    """JupyterHub's spawner of ada's server, which it is checking."""

    def __init__(self) -> None:
        super().__init__(
            user=SimpleNamespace(settings={}, db=SimpleNamespace(commit=lambda: None)),
            server=SimpleNamespace(base_url="/user/ada/", protocol="", ip="", port=0),
            orm_spawner=SimpleNamespace(state=None),
            name="",
            start_timeout=300,
            ready=True,
            active=True,
            pending="check",
            _check_pending=True,
            _log_name="ada",
        )

    async def get_url(self) -> str:
        return "https://10.0.0.9:8888/user/ada/"

    def get_state(self) -> dict[str, str]:
        return {"lease": "lease-1"}

    async def poll_and_notify(self) -> int | None:
        return None


@pytest.fixture
def spawner() -> Any:
    return Checked()


@pytest.fixture
async def routes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers of ada that have got a route from a JupyterHub that has started."""
    found: list[str] = []

    async def add_user(_user: Any, name: str) -> None:
        found.append(name)

    started = asyncio.get_running_loop().create_future()
    started.set_result(None)
    app = SimpleNamespace(_start_future=started, proxy=SimpleNamespace(add_user=add_user))
    monkeypatch.setattr(JupyterHub, "instance", lambda: app)
    return found


async def checked(
    world: World, check: RestartCheck, spawner: Any, lease: Lease
) -> asyncio.Task[Lease | None]:
    """A check under way, as JupyterHub makes it."""

    async def of_jupyterhub() -> Lease | None:
        try:
            return await check.wait(spawner, world.provisioner, world.now(lease))
        finally:
            spawner._check_pending = False

    task = asyncio.create_task(of_jupyterhub())
    await world.complete_passes(1)
    assert not task.done()
    return task


async def test_a_server_that_ends_during_its_check_does_not_run(world: World, spawner: Any) -> None:
    world.silence_agents()
    lease, agent = await world.ready()
    await world.restart()
    check = await checked(world, RestartCheck(), spawner, lease)
    world.cloud.end(agent.instance_id)
    assert await check is None


async def starting(world: World) -> tuple[Lease, Agent]:
    """A start that the end of the hub has interrupted."""
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await world.restart()
    return lease, agent


async def test_a_start_that_continues_after_a_restart_of_the_hub_runs_once_it_is_ready(
    world: World, spawner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answers(*_: Any) -> None:
        pass

    monkeypatch.setattr(restart_check, "wait_for_http_server", answers)
    lease, agent = await starting(world)
    check = await checked(world, RestartCheck(), spawner, lease)
    for step in ("home", "notebook", "ready"):
        await agent.event(step)
    await agent.heartbeat()
    found = await check
    assert found is not None
    assert (found.lease_id, found.state) == (lease.lease_id, LeaseState.READY)


@pytest.mark.parametrize("fails", [True, False])
async def test_a_start_that_fails_after_a_restart_of_the_hub_does_not_run(
    world: World, spawner: Any, fails: bool
) -> None:
    lease, agent = await starting(world)
    check = await checked(world, RestartCheck(), spawner, lease)
    if fails:
        await agent.event("failed", "JupyterLab is missing")
    assert await check is None
    stop = world.now(lease).stop
    assert stop is not None
    assert ("JupyterLab is missing" if fails else "took too long") in stop.message


async def test_a_check_that_is_cut_short_leaves_the_server_to_the_request_that_stops_it(
    world: World, spawner: Any, routes: list[str]
) -> None:
    lease, _ = await world.ready()
    await world.restart()
    check = RestartCheck()
    task = await checked(world, check, spawner, lease)
    assert await check.cut_short(spawner)
    assert await task is None
    assert world.now(lease).state is LeaseState.READY
    await check.done(spawner)
    assert routes == []


async def test_a_check_that_cannot_be_cut_short_continues(
    world: World, spawner: Any, routes: list[str]
) -> None:
    check = RestartCheck()
    assert not await check.cut_short(spawner)
    await check.done(spawner)
    assert routes == [""]
    assert spawner.orm_spawner.state == {"lease": "lease-1"}


@pytest.mark.parametrize("ready", [True, False])
async def test_a_server_is_checked_again_if_its_stop_was_refused(
    world: World, spawner: Any, routes: list[str], ready: bool
) -> None:
    lease, _ = await world.ready()
    await world.restart()
    check = RestartCheck()
    await checked(world, check, spawner, lease)
    assert await check.cut_short(spawner)
    spawner.ready = ready
    check.resume(spawner, world.provisioner)
    assert spawner._check_pending is ready
    await until(lambda: not spawner._check_pending, "the second check")
    await world.settle()
    assert routes == ([""] if ready else [])
    server = spawner.server
    found = (server.protocol, server.ip, server.port)
    assert found == (("https", "10.0.0.9", 8888) if ready else ("", "", 0))


# --- what JupyterHub asks of a spawner meanwhile ---


@pytest.fixture
def ours(world: World) -> Iterator[EC2Spawner]:
    """The spawner of ada, in a hub whose T4 may be idle for half an hour."""
    spawner = EC2Spawner(
        user=fake_user("ada", settings={}),
        hub=SimpleNamespace(url="http://10.0.0.1:8081/hub/"),
        api_token="secret",
    )
    spawner.server = SimpleNamespace(base_url="/user/ada/", url="http://10.0.0.9:8888/user/ada/")
    profile = {"display_name": "T4", "slug": "t4", "gpu": "T4", "idle": {"server": "30m"}}
    raw = {"region": "us-east-1", "subnets": ["subnet-a"], "profile_list": [profile]}
    options = validate_options(raw, cleanup_servers=False, environ={})
    nothing: Any = None
    accounts = world.provisioner.accounts
    hub = service.HubService(options=options, seal=nothing, verifier=nothing, accounts=accounts)
    hub.provisioner = world.provisioner
    service.publish(hub)
    yield spawner
    service.publish(None)


async def test_the_check_of_a_server_that_ends_meanwhile_succeeds_and_its_stop_follows(
    world: World, ours: EC2Spawner
) -> None:
    """JupyterHub looks for a notebook at the URL: the hub itself answers there."""
    world.silence_agents()
    lease, agent = await world.ready()
    ours.lease_id, ours._check_pending = lease.lease_id, True
    url = asyncio.create_task(ours.get_url())
    await world.complete_passes(1)
    assert not url.done()
    world.cloud.end(agent.instance_id)
    assert await url == "http://10.0.0.1:8081/hub/"
    ours._check_pending = False
    await world.state(lease, LeaseState.ENDED)
    assert await ours.poll() is not None, "JupyterHub stops it"


@pytest.mark.parametrize("stops", [False, True])
async def test_a_server_gets_the_policy_of_today_unless_it_is_being_stopped(
    world: World, ours: EC2Spawner, stops: bool
) -> None:
    lease, _ = await world.ready()
    if stops:
        await world.stop(lease)
    assert await ours.poll() is None
    assert ours.lease_id == lease.lease_id
    await world.complete_passes(1)
    assert world.now(lease).idle.server_seconds == (lease.idle.server_seconds if stops else 1800)


async def test_the_progress_of_a_start_begins_once_it_is_requested(
    world: World, ours: EC2Spawner
) -> None:
    async def events() -> list[dict[str, Any]]:
        return [event async for event in ours.progress()]

    seen = asyncio.create_task(events())
    await world.complete_passes(1)
    assert not seen.done()
    lease = await world.request()
    ours.lease_id = lease.lease_id
    await world.boot()
    await world.stop(lease)
    messages = [event["message"] for event in await seen]
    assert messages[-1].startswith("Found one")


# --- the REST API ---


class OfAdmin(ServerHandler):
    """A request of an admin with this body, for the server of ada."""

    current_user = SimpleNamespace(kind="user", name="admin")
    parsed_scopes: ClassVar[dict[str, Any]] = {
        "start:servers": Scope.ALL,
        "delete:servers": Scope.ALL,
    }
    expanded_scopes = frozenset(parsed_scopes)
    db = None

    def __init__(self, spawner: Any, body: bytes = b"") -> None:
        self.application = SimpleNamespace(settings={})
        self.request = SimpleNamespace(path="/users/ada/server", headers={}, body=body)
        self.ada = fake_user("ada", spawners={"": spawner})

    def find_user(self, name: str) -> Any:
        return self.ada


async def test_a_server_under_check_is_not_started(spawner: Any) -> None:
    with pytest.raises(HTTPError, match="checking whether this server still runs") as refused:
        await OfAdmin(spawner).post("ada")
    assert refused.value.status_code == 400


async def checked_through_the_api(
    world: World, spawner: Any
) -> tuple[Agent, asyncio.Task[Lease | None]]:
    """The agent of a server and the server's check, of which the handlers know."""
    world.silence_agents()
    lease, agent = await world.ready()
    await world.restart()
    hub = service.current()
    assert hub is not None
    hub.provisioner = world.provisioner
    spawner.start_check = RestartCheck()
    return agent, await checked(world, spawner.start_check, spawner, lease)


async def test_the_check_continues_where_jupyterhub_will_refuse_the_stop(
    world: World, ours: EC2Spawner, spawner: Any
) -> None:
    agent, task = await checked_through_the_api(world, spawner)
    with pytest.raises(HTTPError, match="default server"):
        await OfAdmin(spawner, b'{"remove": true}').delete("ada")
    assert spawner._check_pending
    world.cloud.end(agent.instance_id)
    assert await task is None, "what its own instance says ends it"


async def test_a_stop_that_is_refused_during_a_check_ends_no_save(
    world: World, ours: EC2Spawner, spawner: Any
) -> None:
    rules = SleepRules(save_seconds=300, max_bytes=2**30)
    lease, _ = await world.ready(home_kind="ebs", sleep=rules)
    await world.provisioner.sleeping.put_to_sleep(lease.lease_id, "You put it to sleep")
    spawner.start_check = RestartCheck()  # which no answer of EC2 has let begin
    with pytest.raises(HTTPError, match="no answer from EC2") as refused:
        await OfAdmin(spawner, b'{"sleep": false}').delete("ada")
    assert refused.value.status_code == 503
    assert world.now(lease).saves_session


async def test_the_check_begins_anew_where_jupyterhub_refuses_the_stop(
    world: World, ours: EC2Spawner, spawner: Any, routes: list[str]
) -> None:
    """For which it was cut short: a server that is being renamed is not stopped."""
    _, task = await checked_through_the_api(world, spawner)
    spawner.pending = "rename"
    with pytest.raises(HTTPError, match="being renamed"):
        await OfAdmin(spawner).delete("ada")
    assert await task is None
    assert spawner._check_pending
    await world.settle()
    assert routes == [""]

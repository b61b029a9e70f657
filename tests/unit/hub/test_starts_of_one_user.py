"""How many servers one user starts, lately and at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.scopes import parse_scopes
from tornado.web import HTTPError

from ec2spawner.core.rate_limit import Rate, RateLimit
from ec2spawner.hub.api.jupyterhub_server_api import ServerHandler
from ec2spawner.hub.app import service
from ec2spawner.hub.app.start_requests import TakesTurns
from ec2spawner.hub.security.instances_scope import SCOPE
from tests.user_accounts import Caller, bare_accounts, fake_user


class Handler(TakesTurns):
    """Of a hub on which others start servers, too."""

    concurrent_spawn_limit = 20
    expanded_scopes: frozenset[str] = frozenset()
    users: Any = None

    def __init__(self, others: int = 0) -> None:
        self.started = 0
        self.ann = fake_user("ann", spawners={})
        self.users = SimpleNamespace(
            count_active_users=lambda: {"spawn_pending": others + len(self.ann.spawners)}
        )

    async def start(self, count: int) -> int:
        """The status of the last one."""
        for number in range(count):
            try:
                await self.spawn_single_user(self.ann, f"server-{number}")
            except HTTPError as error:
                headers: Any = error
                assert int(headers.headers["Retry-After"]) >= 1
                return error.status_code
        return 201


@pytest.fixture(autouse=True)
def _jupyterhub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts every server that it is asked for."""

    async def spawn(handler: Handler, user: Any, server_name: str = "") -> None:
        handler.started += 1
        user.spawners[server_name] = SimpleNamespace(pending="spawn")

    monkeypatch.setattr(BaseHandler, "spawn_single_user", spawn)


@pytest.fixture(autouse=True)
def hub() -> Iterator[service.HubService]:
    nothing: Any = None
    made = service.HubService(
        options=nothing, seal=nothing, verifier=nothing, accounts=bare_accounts()
    )
    service.publish(made)
    yield made
    service.publish(None)


@pytest.mark.parametrize(("others", "most"), [(0, 4), (10, 2), (19, 1)])
async def test_one_user_leaves_starts_at_the_same_time_to_others(others: int, most: int) -> None:
    handler = Handler(others)
    assert await handler.start(10) == 429
    assert handler.started == most


async def test_who_starts_servers_again_and_again_waits(hub: service.HubService) -> None:
    hub.limits.user_starts = RateLimit(Rate(burst=3, per_second=1e-3))
    handler = Handler()
    for number in range(5):
        status = await handler.start(1)
        assert status == (201 if number < 3 else 429)
        handler.ann.spawners.clear()
    handler.ann = fake_user("bob", spawners={})
    assert await handler.start(1) == 201


class Api(ServerHandler):
    """A call to JupyterHub's API by this user, with these scopes, on a hub where every user but
    `idle` has a running server."""

    db = None

    def __init__(self, caller: str, *scopes: str) -> None:
        self._jupyterhub_user = Caller(caller)
        self.expanded_scopes = frozenset(scopes)
        self.parsed_scopes = parse_scopes(scopes)

    def find_user(self, name: str) -> Any:
        running = SimpleNamespace(active=name != "idle", pending=None, _check_pending=False)
        return fake_user(name, spawners={"": running})

    async def status(self, method: str, user: str) -> int:
        """Of the answer to such a call about the server of `user`."""
        path = f"/users/{user}/server"
        self.request = SimpleNamespace(method=method, headers={}, path=path, body=b"")
        try:
            await self.prepare()
            await getattr(self, method.lower())(user)
        except HTTPError as error:
            return error.status_code
        return 202


@pytest.fixture
def one_call(hub: service.HubService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user may make one call, and no other for hours. JupyterHub does all that it is asked."""

    async def done(*_: Any) -> None:
        pass

    monkeypatch.setattr(BaseHandler, "prepare", done)
    monkeypatch.setattr(UserServerAPIHandler, "post", done)
    monkeypatch.setattr(UserServerAPIHandler, "delete", done)
    hub.limits.server_calls = RateLimit(Rate(burst=1, per_second=1e-4))


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_calls_that_start_or_stop_servers_have_a_rate(method: str) -> None:
    """Also those that change nothing."""
    owner = Api("idle", "servers!user=idle", "start:servers!user=idle", "delete:servers!user=idle")
    assert await owner.status(method, "idle") == 202
    assert await owner.status(method, "idle") == 429


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_refused_calls_take_nothing_of_what_their_user_may_call(method: str) -> None:
    """Everyone with access to a server has its token."""
    of_server = Api("idle", "users:activity!user=idle", "access:servers!server=idle/")
    for _ in range(5):
        assert await of_server.status(method, "idle") in {403, 404}
    owner = Api("idle", "start:servers!user=idle", "delete:servers!user=idle")
    assert await owner.status(method, "idle") == 202


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_calls_for_other_users_servers_count_as_those_users(method: str) -> None:
    teacher = Api("teacher", "start:servers", "delete:servers")
    for number in range(30):
        assert await teacher.status(method, f"student-{number}") == 202
    assert await teacher.status("POST", "teacher") == 202


@pytest.mark.usefixtures("one_call")
async def test_no_rate_refuses_the_stop_of_a_running_server() -> None:
    owner = Api("ann", "start:servers!user=ann", "delete:servers!user=ann")
    assert [await owner.status("POST", "ann") for _ in range(2)] == [202, 429]
    for _ in range(3):
        assert await owner.status("DELETE", "ann") == 202


async def test_an_admin_starts_as_many_as_needed(hub: service.HubService) -> None:
    hub.limits.user_starts = RateLimit(Rate(burst=1, per_second=1e-3))
    handler = Handler()
    handler.expanded_scopes = frozenset({SCOPE})
    assert await handler.start(10) == 201

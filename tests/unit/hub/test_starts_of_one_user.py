"""How many servers one user starts, lately and at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.handlers.base import BaseHandler
from tornado.web import HTTPError

from ec2spawner.core.rate_limit import Rate, RateLimit
from ec2spawner.hub.app import service
from ec2spawner.hub.app.start_requests import TakesTurns
from ec2spawner.hub.security.instances_scope import SCOPE
from tests.user_accounts import Caller, bare_accounts, fake_user


class Handler(TakesTurns):
    """Of a hub on which others start servers, too."""

    concurrent_spawn_limit = 20
    expanded_scopes: frozenset[str] = frozenset()
    users: Any = None
    request: Any = None
    current_user: Any = None

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


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_calls_that_start_or_stop_servers_have_a_rate(
    hub: service.HubService, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Also those that change nothing."""

    async def identified(_: Handler) -> None:
        pass

    monkeypatch.setattr(BaseHandler, "prepare", identified)
    hub.limits.server_calls = RateLimit(Rate(burst=2, per_second=1e-3))
    handler = Handler()
    handler.request = SimpleNamespace(method=method, headers={})
    handler.current_user = Caller("ann")
    for _ in range(2):
        await handler.prepare()
    with pytest.raises(HTTPError) as refused:
        await handler.prepare()
    assert refused.value.status_code == 429
    handler.current_user = Caller("bob")
    await handler.prepare()


async def test_an_admin_starts_as_many_as_needed(hub: service.HubService) -> None:
    hub.limits.user_starts = RateLimit(Rate(burst=1, per_second=1e-3))
    handler = Handler()
    handler.expanded_scopes = frozenset({SCOPE})
    assert await handler.start(10) == 201

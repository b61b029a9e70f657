"""How many documents of runs the hub gives out, and to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub.apihandlers.base import APIHandler
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from ec2spawner.core.rate_limit import Rate, RateLimit
from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.api import runs as runs_api
from ec2spawner.hub.api.agents import handler as agent_handler
from ec2spawner.hub.api.agents.runs import RunsHandler
from ec2spawner.hub.app import service
from ec2spawner.provisioner.runs.runs import NoSuchRun, Owner
from ec2spawner.wire import RunsAnswer, RunSummary
from tests.unit.runs.agent_socket import summary


class Runs:
    """Each run has a result."""

    def one(self, owner: Owner, number: int) -> RunSummary:
        if number > 20:
            raise NoSuchRun(f"you have no run {number}")
        return summary(number, state="ended", has_result=True)

    def array(self, owner: Owner, number: int) -> list[RunSummary]:
        return [self.one(owner, number)]

    async def result(self, owner: Owner, number: int) -> str:
        return pack([f"result {number} of {owner.name}".encode()])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[service.HubService]:
    """Gives out two results, and for hours no other."""
    monkeypatch.setattr(agent_handler, "LIMITED_PAUSE", 0.0)
    monkeypatch.setattr(runs_api, "created_at", lambda user: None)
    provisioner: Any = SimpleNamespace(runs=Runs())
    nothing: Any = None
    made = service.HubService(options=nothing, seal=nothing, verifier=nothing)
    made.provisioner = provisioner
    made.run_results = RateLimit(Rate(burst=2, per_second=1e-4))
    service.publish(made)
    yield made
    service.publish(None)


@asynccontextmanager
async def served(handler: type[Any], path: str) -> AsyncIterator[httpx.AsyncClient]:
    database = SimpleNamespace(dirty=False)
    http = HTTPServer(Application([(path, handler)], db=database))
    socket, port = bind_unused_port()
    http.add_socket(socket)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client
    http.stop()


class WithoutHub(APIHandler):
    """Has none of JupyterHub's settings."""

    async def prepare(self) -> None:
        pass

    def set_default_headers(self) -> None:
        pass


class OfAgent(RunsHandler, WithoutHub):
    """Of a lease that is in the address."""

    def lease(self, lease_id: str) -> Any:
        return SimpleNamespace(lease_id=lease_id, user="ann", is_server=True)

    def owner(self, lease: Any) -> Owner:
        return Owner(lease.user)


class OfUser(runs_api.RunResultHandler, WithoutHub):
    """Of the user whose id is in the token."""

    def owner(self, scope: str) -> Any:
        user_id = int(self.request.headers["Authorization"])
        return SimpleNamespace(id=user_id, name=f"user {user_id}")


async def test_a_server_that_reads_too_many_results_hears_when_to_ask_again(
    hub: service.HubService,
) -> None:
    async with served(OfAgent, r"/([a-z]+)") as client:
        result = {"action": "result", "number": 12}
        for _ in range(2):
            reply = await client.post("/first", json=result)
            assert RunsAnswer.model_validate_json(reply.content).result
        limited = await client.post("/first", json=result)
        assert limited.status_code == 429
        assert 9000 < int(limited.headers["Retry-After"]) <= 10_000
        assert (await client.post("/first", json={"action": "list", "number": 12})).is_success
        assert (await client.post("/second", json=result)).is_success


async def test_a_user_who_reads_too_many_results_hears_when_to_ask_again(
    hub: service.HubService,
) -> None:
    async with served(OfUser, r"/([0-9]+)/result") as client:
        ann, bob = {"Authorization": "7"}, {"Authorization": "8"}
        assert (await client.get("/21/result", headers=ann)).status_code == 404
        for number in (12, 13):
            reply = await client.get(f"/{number}/result", headers=ann)
            assert reply.text == f"result {number} of user 7"
        limited = await client.get("/12/result", headers=ann)
        assert limited.status_code == 429
        assert 9000 < int(limited.headers["Retry-After"]) <= 10_000
        assert "too many results" in limited.json()["message"]
        assert (await client.get("/12/result", headers=bob)).is_success


async def test_a_user_and_a_lease_of_the_same_name_have_a_limit_each(
    hub: service.HubService,
) -> None:
    result = {"action": "result", "number": 12}
    async with served(OfAgent, r"/([0-9]+)") as agent, served(OfUser, r"/([0-9]+)/result") as user:
        for _ in range(2):
            assert (await agent.post("/7", json=result)).is_success
            assert (await user.get("/12/result", headers={"Authorization": "7"})).is_success

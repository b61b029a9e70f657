"""How many documents of runs the hub gives out, and to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from ec2spawner.core.rate_limit import Rate, RateLimit
from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.api.agents import handler as agent_handler
from ec2spawner.hub.api.agents.runs import RunsHandler
from ec2spawner.hub.app import service
from ec2spawner.provisioner.runs.runs import Owner
from ec2spawner.wire import RunsAnswer, RunSummary
from tests.unit.runs.agent_socket import summary


class Runs:
    """Each run has a result."""

    def one(self, owner: Owner, number: int) -> RunSummary:
        return summary(number, state="ended", has_result=True)

    def array(self, owner: Owner, number: int) -> list[RunSummary]:
        return [self.one(owner, number)]

    async def result(self, owner: Owner, number: int) -> str:
        return pack([f"result {number} of {owner.name}".encode()])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[service.HubService]:
    """Gives out two results, and for hours no other."""
    monkeypatch.setattr(agent_handler, "LIMITED_PAUSE", 0.0)
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


class OfAgent(RunsHandler):
    """Of a lease that is in the address, without JupyterHub's own settings."""

    def lease(self, lease_id: str) -> Any:
        return SimpleNamespace(lease_id=lease_id, user="ann", is_server=True)

    def owner(self, lease: Any) -> Owner:
        return Owner(lease.user)

    async def get_current_user(self) -> None:
        return None

    def _resolve_roles_and_scopes(self) -> None:
        pass

    def set_default_headers(self) -> None:
        pass


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

"""`{base}ec2spawner/api/cluster` for the owner, for guests, and where something is missing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from ec2spawner.notebook.agent_link import AgentGoneError
from ec2spawner.notebook.api.cluster_handler import ClusterHandler
from ec2spawner.notebook.status.cluster_status import ClusterStatusCache
from ec2spawner.wire import (
    ClusterAnswer,
    ClusterPrice,
    ClusterRequest,
    ClusterStatus,
    NotebookReply,
    WorkerStatus,
    sentence,
)

SECRET = "group secret has spent 200 USD"


class Link:
    """The line to an agent that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[ClusterRequest] = []
        self.refusal = ""
        self.is_gone = False

    async def ask(self, kind: str, *, cluster: ClusterRequest) -> NotebookReply:
        assert kind == "cluster"
        self.asked.append(cluster)
        if self.is_gone:
            raise AgentGoneError("agent-silent")
        if self.refusal:
            why = sentence("refused", detail=self.refusal)
            return NotebookReply(id=1, ok=False, sentence=why)
        price = None
        if cluster.action == "price":
            price = ClusterPrice(profile_name="A10G", workers=cluster.workers or 0)
        worker = WorkerStatus(
            number=1,
            state="ending",
            message=SECRET,
            url="http://10.0.0.7:1",
            since=datetime(2026, 11, 20, tzinfo=UTC),
        )
        status = ClusterStatus(
            wanted=2, max_workers=4, address="10.0.0.7:6379", problem=SECRET, workers=[worker]
        )
        return NotebookReply(id=1, ok=True, cluster=ClusterAnswer(status=status, price=price))


class Handler(ClusterHandler):
    """Of a user that the test chooses, without Jupyter's own settings."""

    user = SimpleNamespace(username="ann", hub_user={"kind": "user"})

    async def prepare(self, *_: Any, **__: Any) -> None:
        pass

    def get_current_user(self) -> Any:
        return self.user

    def check_xsrf_cookie(self) -> None:
        pass

    def set_default_headers(self) -> None:
        pass


class Server:
    def __init__(self, link: Link | None) -> None:
        self.link: Any = link
        cluster = ClusterStatusCache(self._ask)
        arguments = {"service": SimpleNamespace(link=link, owner="ann", cluster=cluster)}
        self._http = HTTPServer(Application([("/cluster", Handler, arguments)]))
        socket, port = bind_unused_port()
        self._http.add_socket(socket)
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}")

    async def _ask(self) -> NotebookReply:
        answer: NotebookReply = await self.link.ask("cluster", cluster=ClusterRequest())
        return answer

    async def get(self) -> tuple[int, Any]:
        reply = await self.client.get("/cluster")
        return reply.status_code, reply.json()

    async def post(self, **body: Any) -> tuple[int, Any]:
        reply = await self.client.post("/cluster", content=json.dumps(body))
        return reply.status_code, reply.json()

    async def close(self) -> None:
        await self.client.aclose()
        self._http.stop()


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
async def server(link: Link) -> AsyncIterator[Server]:
    server = Server(link)
    yield server
    await server.close()


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> None:
    user = SimpleNamespace(username="bob", hub_user={"kind": "user"})
    monkeypatch.setattr(Handler, "user", user)


async def test_the_owner_sees_the_cluster_and_changes_it(server: Server, link: Link) -> None:
    code, found = await server.get()
    assert (code, found["status"]["wanted"], found["price"]) == (200, 2, None)
    assert (found["status"]["problem"], found["status"]["max_workers"]) == (SECRET, 4)
    code, found = await server.post(action="price", workers=3, profile="a10g")
    assert (code, found["price"]["workers"]) == (200, 3)
    assert (await server.post(action="scale", workers=3))[0] == 200
    assert (await server.post(action="stop"))[0] == 200
    said = [(each.action, each.workers, each.profile) for each in link.asked[1:]]
    assert said == [("price", 3, "a10g"), ("scale", 3, None), ("stop", None, None)]


@pytest.mark.usefixtures("guest")
async def test_a_guest_sees_no_address_and_no_reason_and_changes_nothing(
    server: Server, link: Link
) -> None:
    code, found = await server.get()
    assert (code, found["status"]["wanted"], found["status"]["max_workers"]) == (200, 2, 0)
    assert SECRET not in json.dumps(found)
    assert "10.0.0.7" not in json.dumps(found)
    code, found = await server.post(action="stop")
    assert (code, found["sentence"]["code"]) == (403, "owner-only")
    assert [each.action for each in link.asked] == ["status"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "start", "workers": 2},
        {"action": "status"},
        {"action": "scale", "workers": -1},
        {"action": "scale", "workers": 65},
        {"action": "scale", "workers": 2, "join": {}},
    ],
)
async def test_what_a_page_may_not_ask_is_refused(
    server: Server, link: Link, body: dict[str, Any]
) -> None:
    code, found = await server.post(**body)
    assert (code, found["sentence"]["code"], link.asked) == (400, "invalid-request", [])


async def test_a_refusal_and_a_silent_agent_are_sentences(server: Server, link: Link) -> None:
    link.refusal = "at most 4 workers"
    code, found = await server.post(action="scale", workers=5)
    assert (code, found["sentence"]["params"]) == (409, {"detail": "at most 4 workers"})
    link.is_gone = True
    assert (await server.get())[0] == 503
    code, found = await server.post(action="stop")
    assert (code, found["sentence"]["code"]) == (503, "agent-silent")


async def test_a_server_without_an_agent_has_no_cluster() -> None:
    server = Server(None)
    try:
        for code, found in (await server.get(), await server.post(action="stop")):
            assert (code, found["sentence"]["code"]) == (404, "not-managed")
    finally:
        await server.close()

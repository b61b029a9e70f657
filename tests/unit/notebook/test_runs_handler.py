"""`{base}ec2spawner/api/runs`: what the dialog submits, and who may."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from ec2spawner.core.runs.documents import unpack
from ec2spawner.notebook.agent_link import AgentGoneError
from ec2spawner.notebook.api.runs_handler import RunsHandler
from ec2spawner.wire import (
    NotebookReply,
    RunsAnswer,
    RunsRequest,
    RunSubmission,
    RunSummary,
    sentence,
)


class Link:
    """The line to an agent that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[RunsRequest] = []
        self.refusal = ""
        self.is_gone = False

    async def ask(self, kind: str, *, runs: RunsRequest) -> NotebookReply:
        assert kind == "runs"
        self.asked.append(runs)
        if self.is_gone:
            raise AgentGoneError("agent-silent")
        if self.refusal:
            why = sentence("refused", detail=self.refusal)
            return NotebookReply(id=1, ok=False, sentence=why)
        run = RunSummary(
            number=12,
            path="work/train.py",
            profile="t4",
            profile_name="T4",
            state="queued",
            submitted_at=datetime(2026, 11, 25, tzinfo=UTC),
        )
        return NotebookReply(id=1, ok=True, runs=RunsAnswer(runs=[run]))

    @property
    def submission(self) -> RunSubmission:
        found = self.asked[-1].submission
        assert found is not None
        return found


class Handler(RunsHandler):
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
    def __init__(self, link: Link | None, root: Path, home: Path) -> None:
        service = SimpleNamespace(link=link, owner="ann")
        arguments = {"service": service, "root": root, "home": home}
        self._http = HTTPServer(Application([("/runs", Handler, arguments)]))
        socket, port = bind_unused_port()
        self._http.add_socket(socket)
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}")

    async def get(self) -> tuple[int, Any]:
        reply = await self.client.get("/runs")
        return reply.status_code, reply.json()

    async def post(self, **body: Any) -> tuple[int, Any]:
        given = {"path": "train.py", "profile": "t4"} | body
        reply = await self.client.post("/runs", content=json.dumps(given))
        return reply.status_code, reply.json()

    async def close(self) -> None:
        await self.client.aclose()
        self._http.stop()


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "train.py").write_text("print('x')\n")
    (home / "private.py").write_text("private")
    (tmp_path / "secret.py").write_text("secret")
    return home


@pytest.fixture
async def server(link: Link, home: Path) -> AsyncIterator[Server]:
    server = Server(link, home / "work", home)
    yield server
    await server.close()


async def test_the_owner_submits_a_file_and_lists_runs(server: Server, link: Link) -> None:
    before = datetime.now(UTC)
    code, found = await server.post(
        parameters={"lr": "0.1", "name": "a b"}, max_usd=5, deadline_seconds=3600
    )
    assert (code, found["runs"][0]["number"]) == (200, 12)
    sent = link.submission
    assert (sent.path, sent.profile, sent.max_usd) == ("work/train.py", "t4", 5)
    assert (sent.parameters, unpack(sent.document)) == (
        [{"lr": 0.1, "name": "a b"}],
        b"print('x')\n",
    )
    assert sent.deadline is not None
    assert 3600 <= (sent.deadline - before).total_seconds() < 3660
    await server.post()
    assert (link.submission.parameters, link.submission.deadline) == ([{}], None)
    assert (link.submission.payer, link.submission.notify) == ("", False)
    await server.post(notify=True)
    assert link.submission.notify
    code, found = await server.get()
    assert (code, found["runs"][0]["number"], link.asked[-1].action) == (200, 12, "list")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"path": "../../secret.py"}, "run-invalid"),
        ({"path": "../private.py"}, "run-invalid"),
        ({"path": "gone.py"}, "run-invalid"),
        ({"path": "/"}, "run-invalid"),
        ({"path": "a\0.py"}, "run-invalid"),
        ({"parameters": {"a b": "1"}}, "run-invalid"),
        ({"parameters": {"a": "[b]"}}, "run-invalid"),
        ({"parameters": {"a": 1}}, "invalid-request"),
        ({"max_usd": 0}, "invalid-request"),
        ({"deadline_seconds": -1}, "invalid-request"),
        ({"profile": ""}, "invalid-request"),
        ({"payer": "user:ann"}, "invalid-request"),
        ({"notify": "often"}, "invalid-request"),
        ({"document": ""}, "invalid-request"),
    ],
)
async def test_what_cannot_be_run_is_not_sent(
    server: Server, link: Link, body: dict[str, Any], code: str
) -> None:
    status, found = await server.post(**body)
    assert (status, found["sentence"]["code"], link.asked) == (400, code, [])


async def test_a_file_outside_of_the_home_is_not_sent(link: Link, home: Path) -> None:
    server = Server(link, home.parent, home / "work")
    try:
        status, found = await server.post(path="secret.py")
        assert (status, found["sentence"]["code"], link.asked) == (400, "run-invalid", [])
    finally:
        await server.close()


async def test_a_guest_neither_submits_nor_sees_runs(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = SimpleNamespace(username="bob", hub_user={"kind": "user"})
    monkeypatch.setattr(Handler, "user", user)
    for status, found in (await server.get(), await server.post()):
        assert (status, found["sentence"]["code"], link.asked) == (403, "owner-only", [])


async def test_a_refusal_and_a_silent_agent_are_sentences(server: Server, link: Link) -> None:
    link.refusal = "at most 4 runs"
    status, found = await server.post()
    assert (status, found["sentence"]["params"]) == (409, {"detail": "at most 4 runs"})
    link.is_gone = True
    for status, found in (await server.get(), await server.post()):
        assert (status, found["sentence"]["code"]) == (503, "agent-silent")


async def test_a_server_without_an_agent_has_no_runs(home: Path) -> None:
    server = Server(None, home, home)
    try:
        for status, found in (await server.get(), await server.post()):
            assert (status, found["sentence"]["code"]) == (404, "not-managed")
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"path": "train.py", "profile": "t4"', "ends too early"),
        (b'{"path": "train.py", "path": "other.py", "profile": "t4"}', "same key twice"),
        (b'{"path": "train.py", "profile": "t4"} {}', "something follows"),
        (b'{"path": "train.py", "profile": "t4", "max_usd": NaN}', "NaN"),
        (b'{"path": "train.py", "profile": "t4", "max_usd": -1}', "max_usd: "),
    ],
)
async def test_the_problem_with_a_body_is_named(
    server: Server, link: Link, body: bytes, problem: str
) -> None:
    reply = await server.client.post("/runs", content=body)
    assert (reply.status_code, link.asked) == (400, [])
    assert problem in reply.json()["message"]


async def test_a_body_of_another_type_is_refused(server: Server, link: Link) -> None:
    body = b'{"path": "train.py", "profile": "t4"}'
    for media in ("application/json", "text/plain;charset=UTF-8"):
        reply = await server.client.post("/runs", content=body, headers={"Content-Type": media})
        assert reply.status_code == 200
    headers = {"Content-Type": "application/xml"}
    reply = await server.client.post("/runs", content=body, headers=headers)
    assert reply.status_code == 400
    assert "application/json" in reply.json()["message"]

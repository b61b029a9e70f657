"""How many documents of runs the hub gives out, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import httpx
import pytest
from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.scopes import parse_scopes
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError

from ec2spawner.core.rate_limit import Rate, RateLimit
from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.api import runs as runs_api
from ec2spawner.hub.api import user_call
from ec2spawner.hub.api.agents import handler as agent_handler
from ec2spawner.hub.api.agents import runs as agent_runs
from ec2spawner.hub.api.agents.calls import ExtendHandler
from ec2spawner.hub.api.agents.runs import RunHandler, RunsHandler
from ec2spawner.hub.app import service
from ec2spawner.provisioner.runs.runs import NoSuchRun, Owner
from ec2spawner.wire import RunReport, RunsAnswer, RunSummary, RunWork
from tests.unit.runs.agent_socket import summary
from tests.user_accounts import Caller, bare_accounts, fake_user

LARGE = bytes(32 * 2**20)
"""More than the buffers of a connection take from a hub whose client does not read."""


class Runs:
    """Each run has a result."""

    def __init__(self) -> None:
        self.plain: bytes | None = None
        self.cancelled: list[int] = []
        self.added = 0
        """Submissions."""

    def one(self, owner: Owner, number: int) -> RunSummary:
        if number > 20:
            raise NoSuchRun(f"you have no run {number}")
        return summary(number, state="ended", has_result=True)

    def array(self, owner: Owner, number: int) -> list[RunSummary]:
        return [self.one(owner, number)]

    async def summaries(self, runs: list[RunSummary]) -> list[RunSummary]:
        return runs

    async def result(self, owner: Owner, number: int) -> str:
        return pack([self.plain or f"result {number} of {owner.user}".encode()])

    async def cancel(
        self, owner: Owner, number: int, words: str = "", *, all_of_array: bool
    ) -> list[RunSummary]:
        self.cancelled.append(number)
        return self.array(owner, number) if all_of_array else []

    def submitted(self, owner: Owner, request_id: str) -> list[RunSummary]:
        """Two runs, if it is the submission `sweep`."""
        return [summary(number) for number in (7, 8)] if request_id == "sweep" else []

    async def cancel_submitted(self, owner: Owner, request_id: str) -> list[RunSummary]:
        found = self.submitted(owner, request_id)
        return [run.model_copy(update={"state": "ended"}) for run in found]

    async def report(self, lease: Any, report: RunReport) -> RunWork | None:
        """None: each run has another instance by now."""
        return None


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[service.HubService]:
    """Gives out four results to each user, two of them to servers, and for hours no other."""
    monkeypatch.setattr(agent_handler, "LIMITED_PAUSE", 0.0)
    agents, accounts = SimpleNamespace(heard=lambda lease_id: None), bare_accounts()
    provisioner: Any = SimpleNamespace(runs=Runs(), agents=agents, accounts=accounts)
    nothing: Any = None
    made = service.HubService(options=nothing, seal=nothing, verifier=nothing, accounts=accounts)
    made.provisioner = provisioner
    made.limits.run_results = RateLimit(Rate(burst=4, per_second=1e-4))
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
    """Has none of JupyterHub's settings, and a caller whose name is in the header."""

    async def prepare(self) -> None:
        self._jupyterhub_user = Caller(self.request.headers.get("Authorization", "ann"))
        self.expanded_scopes: set[str] = set()

    def set_default_headers(self) -> None:
        pass


class OfAgent(RunsHandler, WithoutHub):
    """Of a lease that is in the address."""

    kept = 0
    """Bytes of the body of the last request."""

    def on_finish(self) -> None:
        super().on_finish()
        type(self).kept = sum(map(len, self._chunks))

    def lease(self, lease_id: str) -> Any:
        return SimpleNamespace(lease_id=lease_id, user="ann", is_server=True)

    def owner(self, lease: Any) -> Owner:
        return Owner(lease.user)

    async def submit(self, lease: Any, owner: Owner, request: Any) -> list[Any]:
        runs: Any = self.provisioner.runs
        runs.added += 1
        return list(runs.array(owner, 12))


class OfInstance(RunHandler, WithoutHub):
    """Answers a lease that executes the run 12."""

    def lease(self, lease_id: str) -> Any:
        return SimpleNamespace(lease_id=lease_id, run=12, user="ann")


class Cancelling(runs_api.RunHandler, WithoutHub):
    """Answers an admin who cancels runs of ann."""

    current_user = fake_user("admin")

    def check_xsrf_cookie(self) -> None:
        pass

    def whose(self, scope: str) -> Owner:
        return Owner("ann")


class OfArrays(runs_api.RunHandler, WithoutHub):
    """Cancels runs of ann for her."""

    def check_xsrf_cookie(self) -> None:
        pass

    def whose(self, scope: str) -> Owner:
        return Owner("ann")


class OfUser(runs_api.RunResultHandler, WithoutHub):
    """A caller with all scopes."""

    def owner(self, scope: str) -> Any:
        return self.current_user


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
        assert 19_000 < int(limited.headers["Retry-After"]) <= 20_000
        assert (await client.post("/first", json={"action": "list", "number": 12})).is_success
        assert (await client.post("/second", json=result)).status_code == 429


async def test_a_user_who_reads_too_many_results_hears_when_to_ask_again(
    hub: service.HubService,
) -> None:
    async with served(OfUser, r"/([0-9]+)/result") as client:
        ann, bob = {"Authorization": "ann"}, {"Authorization": "bob"}
        assert (await client.get("/21/result", headers=ann)).status_code == 404
        for number in (12, 13, 14, 15):
            reply = await client.get(f"/{number}/result", headers=ann)
            assert reply.text == f"result {number} of ann"
        limited = await client.get("/12/result", headers=ann)
        assert limited.status_code == 429
        assert 9000 < int(limited.headers["Retry-After"]) <= 10_000
        assert "too many results" in limited.json()["message"]
        assert (await client.get("/12/result", headers=bob)).is_success


async def test_what_a_user_reads_by_program_and_by_servers_counts_together(
    hub: service.HubService,
) -> None:
    result = {"action": "result", "number": 12}
    async with served(OfAgent, r"/([a-z]+)") as agent, served(OfUser, r"/([0-9]+)/result") as user:
        assert (await agent.post("/first", json=result)).is_success
        assert (await agent.post("/second", json=result)).is_success
        for status in (200, 200, 429):
            reply = await user.get("/12/result", headers={"Authorization": "ann"})
            assert reply.status_code == status
        assert (await user.get("/12/result", headers={"Authorization": "bob"})).is_success


async def test_runs_are_found_and_cancelled_by_the_id_of_their_submission(
    hub: service.HubService,
) -> None:
    async with served(OfAgent, r"/([a-z]+)") as client:
        for action, state in (("list", "queued"), ("cancel", "ended")):
            sent = {"action": action, "request_id": "sweep"}
            reply = await client.post("/first", json=sent)
            found = RunsAnswer.model_validate_json(reply.content).runs
            assert [(run.number, run.state) for run in found] == [(7, state), (8, state)]
        reply = await client.post("/first", json={"action": "list", "request_id": "another"})
        assert RunsAnswer.model_validate_json(reply.content).runs == []


@pytest.mark.parametrize("action", ["cancel", "result", "delivered"])
async def test_what_concerns_one_run_needs_its_number(hub: service.HubService, action: str) -> None:
    async with served(OfAgent, r"/([a-z]+)") as client:
        refused = await client.post("/first", json={"action": action})
        assert refused.status_code == 400
        assert refused.json()["message"] == f"`{action}` needs the number of a run"


async def test_an_instance_whose_run_has_another_one_hears_that(hub: service.HubService) -> None:
    async with served(OfInstance, r"/([a-z]+)") as client:
        refused = await client.post("/first", json={"action": "progress"})
        assert refused.status_code == 409
        assert "has ended, or has another instance" in refused.json()["message"]


async def test_a_value_for_array_cancels_nothing(hub: service.HubService) -> None:
    """`array=false` may be meant as one run, and `array` stands for all."""
    async with served(Cancelling, r"/([0-9]+)") as client:
        refused = await client.delete("/12?array=false")
        assert refused.status_code == 400
        assert "takes no value" in refused.json()["message"]
    provisioner: Any = hub.provisioner
    assert provisioner.runs.cancelled == []


@pytest.fixture
def plentiful(hub: service.HubService) -> service.HubService:
    """A hub whose users may read results as fast as they like."""
    hub.limits.run_results = RateLimit(Rate(burst=10**6, per_second=1.0))
    return hub


def results_are(hub: service.HubService, plain: bytes) -> None:
    provisioner: Any = hub.provisioner
    provisioner.runs.plain = plain


Reader = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slow_reader(client: httpx.AsyncClient, user: str) -> Reader:
    """The connection of a client that has read the first line of a result and nothing else, once
    its user has a place."""
    request = f"GET /12/result HTTP/1.1\r\nHost: x\r\nAuthorization: {user}\r\n\r\n"
    async with asyncio.timeout(60):
        while True:
            reader, writer = await asyncio.open_connection(
                client.base_url.host, client.base_url.port
            )
            writer.write(request.encode())
            if b" 200 " in await reader.readline():
                return reader, writer
            writer.close()
            await asyncio.sleep(0.05)


async def test_a_user_reads_two_results_at_a_time(plentiful: service.HubService) -> None:
    results_are(plentiful, LARGE)
    async with served(OfUser, r"/([0-9]+)/result") as client:
        ann, bob = {"Authorization": "ann"}, {"Authorization": "bob"}
        readers = [await slow_reader(client, "ann") for _ in range(2)]
        limited = await client.get("/12/result", headers=ann)
        assert limited.status_code == 429
        assert limited.headers["Retry-After"] == "5"
        assert "reading other results" in limited.json()["message"]
        assert (await client.get("/12/result", headers=bob)).content == LARGE

        _, dropped = readers.pop()
        dropped.transport.abort()
        readers.append(await slow_reader(client, "ann"))
        assert (await client.get("/12/result", headers=ann)).status_code == 429
        for _, writer in readers:
            writer.transport.abort()


async def test_a_client_that_does_not_read_is_dropped(
    plentiful: service.HubService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_api, "SEND_SECONDS", 0.2)
    results_are(plentiful, LARGE)
    async with served(OfUser, r"/([0-9]+)/result") as client:
        # The last two got the places of the first two.
        slow = [await slow_reader(client, "ann") for _ in range(4)]
        for reader, _ in slow[:2]:
            async with asyncio.timeout(60):
                assert len(await reader.read()) < len(LARGE)


async def test_a_result_of_some_mib_arrives_as_it_is(plentiful: service.HubService) -> None:
    plain = "".join(f"step {number}\n" for number in range(400_000)).encode()
    results_are(plentiful, plain)
    async with served(OfUser, r"/([0-9]+)/result") as client:
        reply = await client.get("/12/result", headers={"Authorization": "ann"})
        assert reply.headers["Content-Length"] == str(len(plain))
        assert reply.content == plain


class Submitting(runs_api.RunListHandler, WithoutHub):
    """Takes what is sent, and keeps it until `may_answer`."""

    begun = 0
    may_answer: asyncio.Event
    kept = 0
    """Bytes of the body of the last request."""

    def on_finish(self) -> None:
        super().on_finish()
        type(self).kept = sum(map(len, self._chunks))

    def check_xsrf_cookie(self) -> None:
        pass

    def owner(self, scope: str) -> Any:
        return self.current_user

    async def post(self) -> None:
        type(self).begun += 1
        self.body()
        await self.may_answer.wait()
        self.set_status(201)


class Unscoped(runs_api.RunListHandler, WithoutHub):
    """Has a token without scopes."""

    parsed_scopes: ClassVar[dict[str, Any]] = {}

    def check_xsrf_cookie(self) -> None:
        pass


@pytest.fixture
def submitting() -> type[Submitting]:
    Submitting.begun, Submitting.may_answer = 0, asyncio.Event()
    return Submitting


async def begin_to_send(client: httpx.AsyncClient, path: str, size: int, user: str) -> Reader:
    """A connection on which a body of so many bytes is announced and not sent."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {user}\r\nContent-Length: {size}"
    writer.write(f"{head}\r\n\r\n".encode())
    return reader, writer


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        return int((await reader.readline()).split()[1])


async def test_a_user_who_calls_too_often_is_refused_before_a_body_is_read(
    hub: service.HubService, submitting: type[Submitting]
) -> None:
    """By program and by servers together."""
    hub.limits.user_calls = RateLimit(Rate(burst=4, per_second=1e-4))
    submitting.may_answer.set()
    async with served(submitting, "/runs") as user, served(OfAgent, r"/([a-z]+)") as agent:
        assert (await user.post("/runs")).status_code == 201
        assert (await agent.post("/first", json={"action": "list", "number": 12})).is_success
        for _ in range(2):
            assert (await user.post("/runs")).status_code == 201
        for client, path in ((user, "/runs"), (agent, "/second")):
            assert (await client.post(path, content=bytes(4 * 2**20))).status_code == 429
        assert OfAgent.kept == submitting.kept == 0
        assert (await user.post("/runs", headers={"Authorization": "bob"})).status_code == 201


async def test_too_many_submissions_are_refused_before_their_body_is_read(
    hub: service.HubService, submitting: type[Submitting]
) -> None:
    hub.limits.run_submissions = RateLimit(Rate(burst=1, per_second=1e-4))
    submitting.may_answer.set()
    async with served(submitting, "/runs") as client:
        assert (await client.post("/runs")).status_code == 201
        assert (await client.post("/runs", content=bytes(4 * 2**20))).status_code == 429
        assert submitting.kept == 0
    async with served(OfAgent, r"/([a-z]+)") as agent:
        assert (await agent.post("/first", content=bytes(4 * 2**20))).status_code == 429
        assert OfAgent.kept == 0


async def test_large_bodies_of_one_user_are_read_one_after_the_other(
    hub: service.HubService, submitting: type[Submitting]
) -> None:
    large = bytes(2**20)
    async with served(submitting, "/runs") as client:
        _, gone = await begin_to_send(client, "/runs", len(large), "ann")
        gone.write(large[:1000])
        first, second = [asyncio.create_task(client.post("/runs", content=large)) for _ in "12"]
        other = asyncio.create_task(
            client.post("/runs", content=large, headers={"Authorization": "bob"})
        )
        await begun(submitting, 1)  # of bob: that of ann does not arrive
        gone.transport.abort()
        await begun(submitting, 2)
        small = asyncio.create_task(client.post("/runs", content=b"{}"))
        await begun(submitting, 3)
        assert not first.done()
        assert not second.done()
        submitting.may_answer.set()
        for each in (first, second, other, small):
            assert (await each).status_code == 201


async def test_a_token_without_the_scope_takes_no_turn_of_its_user(
    hub: service.HubService, submitting: type[Submitting]
) -> None:
    large = bytes(2**20)
    submitting.may_answer.set()
    async with served(Unscoped, "/runs") as guest, served(submitting, "/runs") as client:
        _, held = await begin_to_send(guest, "/runs", len(large), "ann")
        refused = await guest.post("/runs", content=b"{}")
        assert refused.status_code == 403
        async with asyncio.timeout(5):
            assert (await client.post("/runs", content=large)).status_code == 201
        held.transport.abort()


async def begun(submitting: type[Submitting], count: int) -> None:
    """Return once so many requests have arrived as a whole."""
    async with asyncio.timeout(10):
        while submitting.begun < count:
            await asyncio.sleep(0.01)
    assert submitting.begun == count


class OfProgram(user_call.UserCall, WithoutHub):
    """A call with the cookie of ann, or with the token of hers that is in the address."""

    async def prepare(self) -> None:
        self.parsed_scopes = parse_scopes({self.get_query_argument("scope", "self")})
        await super().prepare()

    def get_token(self) -> Any:
        number = self.get_query_argument("token", "")
        return SimpleNamespace(id=number) if number else None

    async def get(self) -> None:
        pass


class Refused(OfProgram):
    """A call for which the token has no scope."""

    async def get(self) -> None:
        raise HTTPError(403)


async def test_tokens_that_may_do_nothing_take_nothing_of_their_users(
    hub: service.HubService,
) -> None:
    """Every server that bob has used has such a token of bob. All together have a bound."""
    hub.limits.user_calls = RateLimit(Rate(burst=8, per_second=1e-4))
    async with served(Refused, "/") as client:
        answers = [(await client.get(f"/?token={n}")).status_code for n in range(30)]
        assert answers == [403] * 8 + [429] * 22
    async with served(OfProgram, "/") as client:
        program = await client.get("/?token=100&scope=read:servers!user=ann")
        assert program.is_success
        for _ in range(7):
            assert (await client.get("/")).is_success
        assert (await client.get("/")).status_code == 429


async def test_programs_of_a_user_leave_half_to_the_page(hub: service.HubService) -> None:
    hub.limits.user_calls = RateLimit(Rate(burst=8, per_second=1e-4))
    async with served(OfProgram, "/") as client:
        address = "/?scope=read:servers!user=ann&token="
        answers = [(await client.get(f"{address}{n}")).status_code for n in range(14)]
        assert answers == [200] * 4 + [429] * 10
        for _ in range(4):
            assert (await client.get("/")).is_success
        assert (await client.get("/")).status_code == 429


class Extend(ExtendHandler, OfAgent):
    """Keeps the server that is in the address."""

    async def call(self, lease: Any) -> None:
        self.body()


async def test_a_server_takes_half_of_what_its_user_may_ask(hub: service.HubService) -> None:
    """Everyone with access to it reads its secret. Others keep the rest, and are always extended
    and stopped."""
    hub.limits.user_calls = RateLimit(Rate(burst=8, per_second=0.5))
    asked = {"action": "list", "number": 12}
    async with served(OfAgent, r"/([a-z]+)") as agent:
        answers = [(await agent.post("/first", json=asked)).status_code for _ in range(9)]
        assert answers.count(429) >= 4
        async with served(Extend, r"/([a-z]+)") as extended, served(OfProgram, "/") as page:
            assert (await extended.post("/second", json={})).is_success
            for _ in range(4):
                assert (await page.get("/")).is_success


async def test_long_lists_take_more_of_what_a_user_may_ask(hub: service.HubService) -> None:
    provisioner: Any = hub.provisioner
    provisioner.runs.array = lambda owner, number: [summary(n) for n in range(1, 1001)]
    hub.limits.user_calls = RateLimit(Rate(burst=50, per_second=1e-4))
    array = {"action": "list", "number": 12}
    async with served(OfAgent, r"/([a-z]+)") as client:
        for _ in range(2):
            reply = await client.post("/first", json=array)
            assert len(RunsAnswer.model_validate_json(reply.content).runs) == 1000
        assert (await client.post("/first", json=array)).status_code == 429
        assert (await client.post("/first", json={"action": "list", "request_id": "x"})).is_success


@pytest.mark.parametrize("action", ["cancel", "submit"])
async def test_nothing_is_done_where_its_answer_would_be_too_long(
    hub: service.HubService, action: str
) -> None:
    """Whoever reads 429 asks again: a submission without an id would be made twice."""
    provisioner: Any = hub.provisioner
    every = [summary(n) for n in range(1, 1001)]
    provisioner.runs.array = lambda owner, number: every
    hub.limits.user_calls = RateLimit(Rate(burst=10, per_second=1e-4))
    submission = {"path": "a.py", "document": "", "profile": "t4", "parameters": [{}] * 1000}
    sent = {"action": action, "number": 12, "array": True, "submission": submission}
    async with served(OfAgent, r"/([a-z]+)") as client:
        assert (await client.post("/first", json=sent)).status_code == 429
    async with served(OfArrays, r"/runs/([0-9]+)") as client:
        assert (await client.delete("/runs/12?array")).status_code == 429
    assert (provisioner.runs.cancelled, provisioner.runs.added) == ([], 0)


async def test_documents_go_to_the_instances_of_a_user_one_after_the_other(
    hub: service.HubService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not read is dropped, and the next one has all of the time."""
    provisioner: Any = hub.provisioner
    loaded: list[str] = []
    seconds = {"first": 0.3, "second": 60.0}

    async def work(lease: Any, report: RunReport) -> RunWork:
        loaded.append(lease.lease_id)
        monkeypatch.setattr(agent_runs, "SEND_SECONDS", seconds[lease.lease_id])
        document = "A" * 32 * 2**20
        return RunWork.model_construct(
            number=12, attempt=1, kind="script", path="a.py", document=document
        )

    provisioner.runs.report = work
    body = RunReport(action="begin").model_dump_json().encode()
    async with served(OfInstance, r"/([a-z]+)") as client:
        slow, writer = await begin_to_send(client, "/first", len(body), "")
        writer.write(body)
        assert await status_of(slow) == 200
        reply = await client.post("/second", content=body)
        assert loaded == ["first", "second"]
        assert len(reply.content) > 32 * 2**20
        async with asyncio.timeout(10):
            assert len(await slow.read()) < 32 * 2**20

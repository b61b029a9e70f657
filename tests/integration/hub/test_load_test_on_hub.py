"""`ec2spawner load-test` against a hub: its users do everything, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.forked_command import Ended, run_command
from tests.harness import ADMIN_TOKEN, PASSWORD, Embedded, Hub, until
from tests.integration.commands.admin import COMMAND
from tests.nursery import ForkedProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=25)]

STEPS = [
    "login",
    "spawn page",
    "start to ready",
    "open lab",
    "kernel start",
    "cell",
    "stop",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), notebook="jupyterlab").start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    running = Hub(tmp_path_factory.mktemp("hub"), embedded)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


class LoadTest:
    """The command, in a process that a test can signal."""

    def __init__(self, hub: Hub, directory: Path) -> None:
        self.hub = hub
        self.directory = directory
        self.process: ForkedProcess | None = None

    async def run(self, secret: Mapping[str, str], *arguments: str, yes: bool = True) -> Ended:
        environment = {**os.environ, "COLUMNS": "200", **secret}
        consent = ["--yes"] if yes else []
        command = ("load-test", self.hub.url, "--json", "--cell-every=0", *consent, *arguments)

        def started(process: ForkedProcess) -> None:
            self.process = process

        return await run_command(COMMAND, command, environment, self.directory, started)

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def child(self) -> psutil.Process:
        """The process of locust."""
        assert self.process is not None
        [found] = psutil.Process(self.process.pid).children()
        return found


@pytest.fixture
def load_test(hub: Hub, tmp_path: Path) -> LoadTest:
    return LoadTest(hub, tmp_path)


BY_PASSWORD = {"EC2SPAWNER_LOAD_TEST_PASSWORD": PASSWORD}
BY_TOKEN = {"JUPYTERHUB_API_TOKEN": ADMIN_TOKEN}


async def servers(hub: Hub) -> dict[str, bool]:
    """User -> whether its server is ready."""
    reply = await hub.api.get("/users?state=active")
    return {
        user["name"]: server["ready"]
        for user in reply.json()
        for server in user["servers"].values()
    }


async def test_users_do_everything_that_a_browser_does(
    hub: Hub, load_test: LoadTest, tmp_path: Path
) -> None:
    page = tmp_path / "locust.html"
    ended = await load_test.run(
        BY_PASSWORD,
        *("--users=3", "--at-once", "--profile=cpu", "--cells=5", "--idle=0"),
        *("--max-usd=1", f"--html={page}"),
    )
    assert ended.status == 0, ended.output + ended.errors
    report = ended.json
    assert list(report["steps"]) == STEPS
    assert {name: each["count"] for name, each in report["steps"].items()} == {
        **dict.fromkeys(STEPS, 3),
        "cell": 15,
    }
    assert report["failures"] == []
    assert report["health"]["count"] > 0
    assert 0 < report["estimated_usd"] < 1
    assert "3 users (load-0001 and so on)" in ended.errors
    assert "start to ready" in page.read_text()
    assert await servers(hub) == {}


@pytest.mark.nightly(
    guard="tests/unit/load_test/test_session.py::test_a_failure_has_the_hubs_words"
)
async def test_a_hubs_refusal_is_reported_in_its_words(hub: Hub, load_test: LoadTest) -> None:
    wrong = {"EC2SPAWNER_LOAD_TEST_PASSWORD": "wrong"}
    ended = await load_test.run(wrong, "--users=1")
    assert ended.status == 2
    assert "Invalid username or password (HTTP 403)" in ended.errors

    unknown = await load_test.run(BY_PASSWORD, "--users=1", "--profile=nothing", "--prefix=other")
    assert unknown.status == 1
    [failure] = unknown.json["failures"]
    assert failure["step"] == "spawn page"
    assert "not nothing" in failure["message"]


async def test_nothing_starts_without_consent(hub: Hub, load_test: LoadTest) -> None:
    ended = await load_test.run(BY_PASSWORD, "--users=1", "--profile=cpu", yes=False)
    assert ended.status == 3, ended.errors
    assert "1 user (load-0001)" in ended.errors
    assert "add --yes" in ended.errors
    assert await servers(hub) == {}


async def test_a_server_that_was_there_before_stays(hub: Hub, load_test: LoadTest) -> None:
    await hub.start_server("mine-0001", options={"profile": "cpu"})
    ended = await load_test.run(BY_TOKEN, "--users=1", "--prefix=mine")
    [failure] = ended.json["failures"]
    assert "has a server already" in failure["message"]
    assert await servers(hub) == {"mine-0001": True}, "and the user, who is not the test's"
    await hub.stop_server("mine-0001")


async def in_use(load_test: LoadTest) -> asyncio.Task[Ended]:
    """A test of two users whose servers are ready, and would stay for long."""
    arguments = ("--users=2", "--at-once", "--profile=cpu", "--idle=3000", "--prefix=new")
    running = asyncio.create_task(load_test.run(BY_TOKEN, *arguments))

    async def both_ready() -> bool:
        assert not running.done(), running.result()
        return list((await servers(load_test.hub)).values()) == [True, True]

    await until(both_ready, 60, "two servers")
    return running


@pytest.mark.parametrize("end", ["a signal", "locust is killed"])
async def test_whatever_ends_the_test_its_servers_and_users_are_removed(
    end: str, hub: Hub, load_test: LoadTest
) -> None:
    running = await in_use(load_test)
    if end == "a signal":
        load_test.send_signal(signal.SIGTERM)
    else:
        load_test.child().kill()
    ended = await running
    assert ended.status == (130 if end == "a signal" else 1), ended.errors
    assert ended.json["ended_by"]
    assert ended.json["left"] == {}
    assert await servers(hub) == {}
    for user in ("new-0001", "new-0002"):
        assert (await hub.api.get(f"/users/{user}")).status_code == 404


async def test_if_the_command_is_killed_its_users_stop_their_servers(
    hub: Hub, load_test: LoadTest
) -> None:
    running = await in_use(load_test)
    child = load_test.child()
    load_test.send_signal(signal.SIGKILL)
    await running

    async def all_gone() -> bool:
        return not child.is_running() and not await servers(hub)

    await until(all_gone, 60, "the users to leave")

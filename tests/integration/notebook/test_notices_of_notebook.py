"""A hidden tab asks for nothing: what it must know comes over the event websocket."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ec2spawner.agent.notebook_server.local_socket import LocalSocket
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.core.text.full_disk import HOME_IS_FULL
from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from ec2spawner.wire import (
    AdminMessage,
    AgentState,
    DocumentsSaved,
    Idleness,
    IdlePolicy,
    NotebookReply,
    NotebookRequest,
    Observation,
    Stop,
    sentence,
)
from tests import nursery
from tests.harness import free_ports

REPOSITORY = Path(__file__).parents[3]
TOKEN = "token-of-this-test"

FULL = sentence("home-full", gib=1)


async def reply(request: NotebookRequest) -> NotebookReply:
    return NotebookReply(id=request.id, ok=True)


def observe(observation: Observation) -> None:
    """Nothing follows from it here."""


@pytest.fixture
async def saved() -> asyncio.Future[DocumentsSaved]:
    """What the notebook reports when no open page has anything left to save."""
    return asyncio.get_running_loop().create_future()


@pytest.fixture
async def agent(
    tmp_path: Path, saved: asyncio.Future[DocumentsSaved]
) -> AsyncIterator[LocalSocket]:
    """The agent's side of the line, and nothing else of it."""
    who = pwd.getpwuid(os.geteuid())
    user = NotebookUser(who.pw_name, who.pw_uid, who.pw_gid, (), tmp_path, who.pw_shell)
    line = LocalSocket(tmp_path, user, observe, reply, saved.set_result)
    await line.start()
    yield line
    await line.close()


@pytest.fixture
async def url(tmp_path: Path, agent: LocalSocket) -> AsyncIterator[str]:
    [port] = free_ports(1)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment = kept | {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(REPOSITORY),
        "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
        "EC2SPAWNER_AGENT_SOCKET": str(agent.path),
    }
    options = ["--allow-root", "--no-browser", f"--port={port}", "--port-retries=0"]
    options.append(f"--IdentityProvider.token={TOKEN}")
    assert nursery.shared is not None
    forks, log = nursery.shared.of("jupyter_server"), tmp_path / "log"
    process = forks.fork(options, environment, tmp_path, log, log)
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(90), aiohttp.ClientSession() as http:
            while True:
                assert process.returncode is None, (tmp_path / "log").read_text()
                try:
                    async with http.get(f"{url}/api") as answer:
                        assert answer.status == 200
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        async with asyncio.timeout(90):
            await process.wait()
        print((tmp_path / "log").read_text()[-4000:])


def state(idleness: Idleness, stop: Stop | None = None) -> AgentState:
    return AgentState(at=datetime.now(UTC), idle_policy=IdlePolicy(), idleness=idleness, stop=stop)


async def next_kinds(events: aiohttp.ClientWebSocketResponse) -> list[str]:
    async with asyncio.timeout(90):
        while True:
            event: dict[str, Any] = json.loads(await events.receive_str())
            if event["schema_id"] == SCHEMA_ID:
                return [notice["kind"] for notice in event["notices"]]


async def test_notices_are_pushed_to_an_idle_tab_when_they_appear_and_end(
    agent: LocalSocket, url: str
) -> None:
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    warned = Idleness(idle_since=now - 50 * minute, warn_at=now - minute, stop_at=now + 9 * minute)
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"token {TOKEN}"}) as http,
        http.ws_connect(f"{url}/api/events/subscribe") as events,
    ):
        agent.push(state(warned))
        assert await next_kinds(events) == ["idle"]
        async with http.get(f"{url}/ec2spawner/api/status") as answer:
            assert [each["kind"] for each in (await answer.json())["notices"]] == ["idle"]

        agent.push(state(Idleness(busy_because="train.ipynb is running")))
        assert await next_kinds(events) == []

        agent.push(state(warned, Stop(reason="interruption", message="AWS reclaims it")))
        assert await next_kinds(events) == ["interruption"]


async def test_the_websocket_that_guests_have_too_carries_nothing_of_the_owners(
    agent: LocalSocket, url: str
) -> None:
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    warned = Idleness(idle_since=now - 50 * minute, warn_at=now - minute, stop_at=now + 9 * minute)
    message = AdminMessage(id="1", text="for the owner only")
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"token {TOKEN}"}) as http,
        http.ws_connect(f"{url}/api/events/subscribe") as events,
    ):
        agent.push(state(warned).model_copy(update={"message": message}))
        assert await next_kinds(events) == ["idle"]


async def test_documents_count_as_saved_once_each_open_page_has_reported(
    agent: LocalSocket, url: str, saved: asyncio.Future[DocumentsSaved]
) -> None:
    stop = Stop(reason="admin", message="alice asked for it")
    subscribe = f"{url}/api/events/subscribe"
    async with aiohttp.ClientSession(headers={"Authorization": f"token {TOKEN}"}) as http:

        async def report(**body: Any) -> int:
            async with http.post(f"{url}/ec2spawner/api/saved", json=body) as answer:
                return answer.status

        async with http.ws_connect(subscribe) as first, http.ws_connect(subscribe) as second:
            third = await http.ws_connect(subscribe)
            assert await report(page="early") == 409, "the stop is not announced yet"
            full = state(Idleness(), stop).model_copy(update={"full_disks": [FULL]})
            agent.push(full)
            for page in (first, second, third):
                assert "stopping" in await next_kinds(page)
            assert await report(page="first") == 200
            assert await report(page="first", unsaved=["a.ipynb"]) == 200, "it tries again"
            assert await report(page="second", unsaved=["x"] * 11) == 400
            assert await report(page="") == 400
            assert await report(page="x" * 65) == 400
            async with asyncio.timeout(20):
                await third.close()  # one that is closed has nothing to save
                assert not saved.done()
                assert await report(page="second", unsaved=["b.ipynb"]) == 200
                assert (
                    await saved
                ).unsaved == f"Not saved: a.ipynb, b.ipynb, because {HOME_IS_FULL}."


async def test_without_an_open_page_saving_is_not_awaited(
    agent: LocalSocket, url: str, saved: asyncio.Future[DocumentsSaved]
) -> None:
    headers = {"Authorization": f"token {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http, asyncio.timeout(20):
        closed = await http.ws_connect(f"{url}/api/events/subscribe")
        await closed.close()
        agent.push(state(Idleness(), Stop(reason="user")))
        assert (await saved).unsaved == ""

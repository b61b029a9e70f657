"""Servers as people have them: several at once, odd names, files that stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from harness import Embedded, Hub, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """One for all tests, each of which has users of its own and leaves no server running."""
    running = Hub(tmp_path_factory.mktemp("hub"), embedded)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def notebook(hub: Hub, user: str, server: str = "") -> httpx.AsyncClient:
    """A client of the server's own API, with a token of its user's."""
    model = await hub.model(user, server)
    assert model is not None
    token = await hub.user_token(user)
    return httpx.AsyncClient(
        base_url=f"{hub.url}{model['url']}", headers={"Authorization": f"token {token}"}
    )


async def test_several_servers_at_once_with_odd_names(hub: Hub, embedded: Embedded) -> None:
    long = "x" * 200
    servers = [("ann", ""), ("ann", "second"), ("ann", "third"), ("jörg müller", ""), (long, "")]
    models = await asyncio.gather(*(hub.start_server(user, server) for user, server in servers))
    assert all(model["ready"] for model in models)
    running = await embedded.instances()
    assert len({instance["address"] for instance in running}) == len(servers)
    for user, server in servers:
        async with await notebook(hub, user, server) as client:
            answer = (await client.get("api/status")).json()
            assert answer["started"]
    await asyncio.gather(*(hub.stop_server(user, server) for user, server in servers))

    async def none_left() -> bool:
        return not await embedded.instances()

    await until(none_left, 15, "all instances to be gone")


async def test_files_survive_a_stop_and_another_profile(hub: Hub) -> None:
    await hub.start_server("ben", options={"profile": "cpu"})
    async with await notebook(hub, "ben") as client:
        body = {"type": "file", "format": "text", "content": "kept"}
        assert (await client.put("api/contents/notes.txt", json=body)).is_success
    await hub.stop_server("ben")
    await hub.start_server("ben", options={"profile": "a10g-24-gb"})
    async with await notebook(hub, "ben") as client:
        assert (await client.get("api/contents/notes.txt")).json()["content"] == "kept"
    await hub.stop_server("ben")


async def test_status_says_what_it_costs(hub: Hub) -> None:
    await hub.start_server("cleo")
    async with await notebook(hub, "cleo") as client:

        async def with_cost() -> dict | None:
            reply = await client.get("ec2spawner/api/status")
            assert reply.status_code == 200, reply.text
            found = reply.json()
            return found if found["cost"] and found["telemetry"] else None

        status = await until(with_cost, 15, "the status to carry a cost")
        assert status["managed"]
        assert status["agent_connected"]
        assert 0 < status["cost"]["usd"] < 0.1
        assert status["cost"]["market"] == "spot"
        assert 0 < status["cost"]["usd_per_hour"] < status["cost"]["on_demand_usd_per_hour"]
        assert status["telemetry"]["gpu_source"] == "simulated"
        assert status["telemetry"]["gpus"][0]["name"] == "T4"
    await hub.stop_server("cleo")


async def test_options_are_refused_with_the_reason(hub: Hub) -> None:
    reply = await hub.request_server("dan", options={"profile": "t5"})
    assert reply.status_code == 400
    assert "profile: there is none called" in reply.json()["message"]
    reply = await hub.request_server("dan", options={"disk": 1})
    assert reply.status_code == 400
    assert "disk" in reply.json()["message"]

"""What admins see and do: `GET instances`, keep, message; and who may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.api.instances import Instances
from ec2spawner.hub.security.instances_scope import SCOPE
from tests.harness import ADMIN_TOKEN, Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    browser,
    server_by_hand,
    silence_agents,
    xsrf_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=25)]

ROLE = {"name": "operations", "users": ["oscar"], "scopes": [SCOPE]}
PATH = "/hub/api/ec2/instances"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    silence_agents(running)
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    config = demo_config(
        directory,
        f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {ROLE!r}]",
        'c.JupyterHub.load_groups = {"all": {"users": ["oscar", "ann"]}}',
    )
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(hub: Hub) -> AsyncIterator[AgentByHand]:
    """Of ann's server, which is ready."""
    async with server_by_hand(hub, "ann") as running:
        yield running


async def send(
    hub: Hub, token: str, path: str = PATH, body: dict[str, Any] | None = None
) -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        return await (client.get(path) if body is None else client.post(path, json=body))


async def operator(hub: Hub) -> str:
    return await hub.user_token("oscar")


async def test_a_running_server_with_its_cost_and_what_it_does(
    hub: Hub, agent: AgentByHand
) -> None:
    await agent.heartbeat(busy_because="train.ipynb is running")
    reply = await send(hub, await operator(hub))
    assert reply.status_code == 200, reply.text
    found = Instances.model_validate_json(reply.content)
    [server] = found.servers
    assert (server.user, server.server, server.state) == ("ann", "", "ready")
    assert (server.profile, server.instance_type) == ("T4, 16 GB", "g4dn.xlarge")
    assert server.instance_id == agent.instance_id
    assert server.zone.startswith("us-east-1")
    assert server.doing == "train.ipynb is running"
    assert server.idle_since is None
    assert server.usd is not None
    assert server.usd_per_hour is not None
    assert 0 < server.usd <= server.usd_per_hour
    assert found.usd_per_hour == server.usd_per_hour
    assert found.unknown_prices == 0


async def test_only_the_scope_shows_the_servers_of_all_users(hub: Hub, agent: AgentByHand) -> None:
    for user in ("eva", "admin"):
        await hub.add_user(user)
    calls = (
        (PATH, None),
        ("/hub/api/ec2/users/ann/server/keep", {"seconds": 60}),
        ("/hub/api/ec2/users/ann/server/message", {"text": "hello"}),
    )
    for path, body in calls:
        for user in ("eva", "ann"):
            assert (await send(hub, await hub.user_token(user), path, body)).status_code == 403
        assert (await send(hub, "wrong", path, body)).status_code == 403
        assert (await send(hub, ADMIN_TOKEN, path, body)).status_code == 403, "not in its role"
        admin = await send(hub, await hub.user_token("admin"), path, body)
        assert admin.is_success, "JupyterHub's role admin has the scope"
    restricted = {"note": "test", "scopes": ["read:users!user"]}
    reply = await hub.api.post("/users/oscar/tokens", json=restricted)
    assert (await send(hub, reply.json()["token"])).status_code == 403


async def test_the_pages_and_their_links_follow_the_scope(hub: Hub) -> None:
    async with browser(hub, "oscar") as page:
        assert (await page.get("/hub/ec2/instances")).status_code == 200
        assert "/hub/ec2/instances" in (await page.get("/hub/token")).text
    async with browser(hub, "eva") as page:
        refused = await page.get("/hub/ec2/instances")
        assert refused.status_code == 403
        assert SCOPE in refused.text
        home = (await page.get("/hub/token")).text
        assert "/hub/ec2/usage" in home
        assert "/hub/ec2/instances" not in home
        assert (await page.get("/hub/ec2/usage")).status_code == 200
    async with httpx.AsyncClient(verify=False, base_url=hub.url) as stranger:
        for path in ("/hub/ec2/instances", "/hub/ec2/usage"):
            reply = await stranger.get(path)
            assert (reply.status_code, "/hub/login" in reply.headers["Location"]) == (302, True)


async def test_the_browsers_cookie_needs_the_pages_own_token(hub: Hub, agent: AgentByHand) -> None:
    async with browser(hub, "oscar") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/oscar")
        path, body = "/hub/api/ec2/users/ann/server/message", {"text": "hello"}
        assert (await page.post(path, json=body)).status_code == 403
        assert (await page.post(path, json=body, headers={"X-XSRFToken": xsrf})).is_success
        fetched = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        assert (await page.get(PATH, headers=fetched)).status_code == 403
        assert (await page.get(PATH, headers={**fetched, "X-XSRFToken": xsrf})).is_success


async def test_releasing_what_is_kept_needs_the_scope_to_stop_servers_too(hub: Hub) -> None:
    for user in ("ann", "admin"):
        await hub.add_user(user)
    path = "/hub/api/ec2/users/ann/server/kept"

    async def released(user: str) -> int:
        headers = {"Authorization": f"token {await hub.user_token(user)}"}
        async with httpx.AsyncClient(base_url=hub.url, headers=headers, timeout=60) as client:
            return (await client.delete(path)).status_code

    assert await released("ann") == 403, "not even one's own"
    assert await released("oscar") == 403
    assert await released("admin") == 404, "nothing is kept"


async def test_a_message_reaches_the_agent_that_waits(hub: Hub, agent: AgentByHand) -> None:
    token = await operator(hub)
    state = (await agent.heartbeat()).json()["state"]
    held = asyncio.create_task(agent.heartbeat(hold_seconds=40, state_seen=state))
    path = "/hub/api/ec2/users/ann/server/message"

    async def was_sent() -> bool:
        return (await send(hub, token, path, {"text": "Stop by 18:00"})).status_code == 204

    await until(was_sent, 10, "the message to be accepted")
    assert (await held).json()["message"]["text"] == "Stop by 18:00"
    assert (await send(hub, token, path, {"text": "x" * 116})).status_code == 400
    assert (await send(hub, token, path, {"text": " \n"})).status_code == 400
    assert (await send(hub, token, path, {"texts": "x"})).status_code == 400
    other = "/hub/api/ec2/users/ann/servers/other/message"
    assert (await send(hub, token, other, {"text": "hello"})).status_code == 404


async def test_an_admin_keeps_a_server_on(hub: Hub, agent: AgentByHand) -> None:
    token = await operator(hub)
    path = "/hub/api/ec2/users/ann/server/keep"
    reply = await send(hub, token, path, {"seconds": 7 * 86400})
    assert reply.status_code == 200, reply.text
    [server] = (await send(hub, token)).json()["servers"]
    assert server["extended_until"] == reply.json()["extended_until"]
    assert server["extended_by"] == "oscar"
    assert (await agent.heartbeat()).json()["extended_by"] == "oscar"
    assert (await agent.heartbeat()).json()["extended_until"] == server["extended_until"]
    for seconds in (0, -1, 31 * 86400, "soon"):
        assert (await send(hub, token, path, {"seconds": seconds})).status_code == 400

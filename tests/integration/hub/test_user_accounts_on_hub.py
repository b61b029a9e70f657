"""Users who are renamed, deleted and created again, and a JupyterHub database made anew."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    browser,
    end_by_hand,
    silence_agents,
)

pytestmark = [pytest.mark.slow(seconds=20), pytest.mark.asyncio(loop_scope="module")]

RUN: dict[str, Any] = {
    "path": "x.py",
    "document": base64.b64encode(zlib.compress(b"print('x')")).decode(),
    "profile": "cpu",
    "max_spot_usd_per_hour": 0.0001,  # none is so cheap: it waits
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), notebook="stub").start()
    silence_agents(running)
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("accounts")
    config = demo_config(
        folder,
        "c.EC2Spawner.runs = {'at_once': 1}",
        "c.EC2Spawner.home = {'size_gib': 20}",
        "c.EC2Spawner.stop_timeout = '3s'",
        "c.Authenticator.admin_users = {'oscar'}",
    )
    running = Hub(folder / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


async def started(hub: Hub, user: str) -> AgentByHand:
    """The agent of a server of this user, which is ready."""
    others = {each["instance_id"] for each in await hub.embedded.instances()}
    starting = asyncio.create_task(hub.request_server(user, options={"profile": "cpu"}))
    agent = await agent_of_new_instance(hub, others)
    await agent.obtain_lease()
    await agent.serve()
    await agent.wait_home()
    assert (await agent.event("ready", port=agent.grant["port"])).status_code == 204
    assert (await starting).is_success
    await hub.wait_ready(user)
    return agent


async def as_user(hub: Hub, user: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    return httpx.AsyncClient(base_url=f"{hub.url}/hub/api/ec2", headers=headers, timeout=30)


async def homes(embedded: Embedded) -> dict[str, str]:
    """Volume -> whose it is, by its tag."""
    found = await asyncio.to_thread(embedded.client().describe_volumes)
    tags = {
        each["VolumeId"]: {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
        for each in found["Volumes"]
    }
    return {
        key: value["ec2spawner:user"] for key, value in tags.items() if "ec2spawner:home" in value
    }


async def rename(hub: Hub, user: str, new: str) -> None:
    reply = await hub.api.patch(f"/users/{user}", json={"name": new})
    assert reply.is_success, reply.text


async def delete(hub: Hub, user: str) -> None:
    assert (await hub.api.delete(f"/users/{user}")).status_code == 204


async def test_a_renamed_user_keeps_all_and_the_next_of_that_name_gets_nothing(
    hub: Hub, embedded: Embedded
) -> None:
    agent = await started(hub, "ann")
    [home] = await homes(embedded)
    async with await as_user(hub, "ann") as ann:
        submitted = await ann.post("/runs", json=RUN)
        assert submitted.status_code == 201, submitted.text
        [run] = [each["number"] for each in submitted.json()["runs"]]
    refused = await hub.api.patch("/users/ann", json={"name": "bob"})
    assert refused.status_code == 409, "its server runs"
    await end_by_hand(agent, "ann")
    await rename(hub, "ann", "bob")
    await hub.add_user("ann")

    async with await as_user(hub, "ann") as new, await as_user(hub, "bob") as bob:
        server, named = "/users/ann/server", f"/runs/{run}"
        assert (await new.get("/usage")).json()["servers"] == []
        assert (await new.get("/usage/costs?by=user")).json()["sums"] == []
        assert (await new.get("/runs")).json()["runs"] == []
        for method, path in (("GET", named), ("DELETE", named), ("GET", f"{named}/result")):
            assert (await new.request(method, path)).status_code == 404, path
        assert (await new.post(f"{server}/sleep")).status_code == 409, "it does not run"
        assert (await new.get(f"{server}/continue")).json()["move"] is None
        assert (await new.get(f"{server}/session")).json()["session"] is None
        on_demand = {"max_usd_per_hour": None}
        assert (await new.post(f"{server}/on-demand", json=on_demand)).status_code == 409
        interrupted = await new.post(f"{server}/interrupt", json={"dry_run": True})
        assert interrupted.status_code == 404
        [session] = (await bob.get("/usage")).json()["sessions"]
        assert session["payer"] == "user:bob"
        listed = (await bob.get("/runs")).json()["runs"]
        assert [each["number"] for each in listed] == [run]
        second = await started(hub, "ann")
        third = await started(hub, "bob")
        async with await as_user(hub, "oscar") as admin:
            servers = (await admin.get("/instances")).json()["servers"]
            assert {each["user"] for each in servers} == {"ann", "bob"}
            body = {"seconds": 60}
            assert (await admin.post("/users/bob/server/keep", json=body)).is_success
        # What the agent of his server submits is charged to bob, and new ann sees none.
        reply = await third.say("runs", {"action": "submit", "submission": RUN})
        assert reply.status_code == 200, reply.text
        assert (await new.get("/runs")).json()["runs"] == []
        assert len((await bob.get("/runs")).json()["runs"]) == 2
        for each in (await bob.get("/runs")).json()["runs"]:
            assert (await bob.delete(f"/runs/{each['number']}")).is_success

    found = await homes(embedded)
    assert len(found) == 2
    [other] = found.keys() - {home}
    assert second.grant["home"]["volume_id"] == other
    await end_by_hand(second, "ann")
    assert third.grant["home"]["volume_id"] == home
    await end_by_hand(third, "bob")
    await delete(hub, "ann")
    await delete(hub, "bob")


async def test_what_a_deleted_user_has_left_is_handed_over(hub: Hub, embedded: Embedded) -> None:
    before = await homes(embedded)
    agent = await started(hub, "eve")
    [home] = (await homes(embedded)).keys() - before.keys()
    eve_id = (await hub.api.get("/users/eve")).json()["created"]
    await end_by_hand(agent, "eve")
    await delete(hub, "eve")
    await hub.add_user("eve")
    assert (await hub.api.get("/users/eve")).json()["created"] != eve_id

    async with await as_user(hub, "eve") as new:
        assert (await new.get("/usage")).json()["sessions"] == []
        own = await new.post("/users/eve/hand-over", json={"account": "eve/1"})
        assert own.status_code == 403
    async with browser(hub, "eve") as client:
        page = (await client.get("/hub/spawn/eve")).text
    admin = await as_user(hub, "oscar")
    sums = (await admin.get("/costs?by=user")).json()["sums"]
    [former] = [x["key"][0] for x in sums if x["key"][0].startswith("eve/")]
    assert "An earlier account of this name has files here" in page, page
    assert former in page

    async def hand_over(user: str, account: str) -> int:
        body = {"account": account}
        return (await admin.post(f"/users/{user}/hand-over", json=body)).status_code

    await hub.add_user("guy")
    assert await hand_over("eve", "guy") == 409, "of somebody who is there"
    assert await hand_over("eve", "nobody/9") == 404
    assert await hand_over("nobody", former) == 404
    assert await hand_over("eve", former) == 204
    again = await started(hub, "eve")
    assert again.grant["home"]["volume_id"] == home
    await end_by_hand(again, "eve")
    await admin.aclose()


async def test_a_database_of_jupyterhub_made_anew_orphans_nobody(
    hub: Hub, embedded: Embedded
) -> None:
    before = await homes(embedded)
    agent = await started(hub, "joe")
    [home] = (await homes(embedded)).keys() - before.keys()
    await end_by_hand(agent, "joe")
    await rename(hub, "joe", "zoe")
    async with await as_user(hub, "zoe") as zoe:
        assert (await zoe.get("/usage")).json()["user"] == "zoe"
    await hub.kill()
    [database] = hub.directory.glob("jupyterhub.sqlite")
    database.unlink()
    await hub.start()
    assert "it was made anew" in hub.log.read_text()
    agent = await started(hub, "zoe")
    assert agent.grant["home"]["volume_id"] == home
    await end_by_hand(agent, "zoe")

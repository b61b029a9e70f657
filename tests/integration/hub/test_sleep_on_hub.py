"""Sleep through a real hub: what stops save, what is kept of it, and what the next start wakes. The
agent is the test; nothing but its user's own calls sees what sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Hub, running_hub, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    browser,
    end_by_hand,
    now,
    server_by_hand,
    silence_agents,
)
from tests.stored import sleeping

pytestmark = [pytest.mark.slow(seconds=35), pytest.mark.asyncio(loop_scope="module")]

GUEST = {"name": "guest", "users": ["gus"], "scopes": ["access:servers!server=gil/"]}
"""Somebody with whom `gil` shares the default server."""

OPTIONS = (
    "c.EC2Spawner.idle = {'server': '4s', 'warn': '1s'}",
    "c.EC2Spawner.sleep = {'save': '2m', 'keep': '3d', 'max_disk_gib': 2}",
    "c.EC2Spawner.stop_timeout = '5s'",
    "c.EC2Spawner.home = {'kind': 'ebs', 'size_gib': 20}",
    f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {GUEST!r}]",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("sleep")
    async with running_hub(folder, *OPTIONS, image=silence_agents) as running:
        yield running


def saved(session_id: str = "s-1") -> dict[str, Any]:
    session = sleeping().session.model_copy(update={"id": session_id})
    return session.model_dump(mode="json") | {"slept_at": now()}


async def ask(hub: Hub, method: str, user: str, what: str, token: str) -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(timeout=30, headers=headers) as client:
        return await client.request(method, f"{hub.url}/hub/api/ec2/users/{user}/server/{what}")


async def strangers(hub: Hub) -> list[str]:
    """Tokens of another user, and of the admins' service."""
    await hub.add_user("eve")
    return [await hub.user_token("eve"), hub.api.headers["Authorization"].split()[1]]


async def asleep(hub: Hub, user: str) -> dict[str, Any] | None:
    reply = await ask(hub, "GET", user, "session", await hub.user_token(user))
    assert reply.status_code == 200, reply.text
    session: dict[str, Any] | None = reply.json()["session"]
    return session


async def put_to_sleep(hub: Hub, agent: AgentByHand, user: str, session: Any) -> dict[str, Any]:
    """The stop as its agent gets it, which then saves."""
    reply = await ask(hub, "POST", user, "sleep", await hub.user_token(user))
    assert reply.status_code == 202, reply.text
    stop: dict[str, Any] = (await agent.heartbeat()).json()["stop"]
    assert (await agent.event("stopped", session=session)).status_code == 204
    await hub.wait_gone(user)
    return stop


async def test_an_idle_server_sleeps_and_its_owner_sees_what_sleeps(hub: Hub) -> None:
    async with server_by_hand(hub, "ann") as agent:
        environment = agent.grant["environment"]
        assert environment["EC2SPAWNER_WAKE"] == "sleeping"
        assert environment["EC2SPAWNER_SLEEP_MAX_BYTES"] == str(2 * 2**30)
        assert environment["EC2SPAWNER_SLEEP_KEEP_SECONDS"] == str(3 * 86400)
        idle_since = datetime.now(UTC)

        async def stopping() -> dict[str, Any] | None:
            reply = await agent.heartbeat(idle_since=idle_since.isoformat(), sent_at=now())
            stop: dict[str, Any] | None = reply.json()["stop"]
            return stop

        stop = await until(stopping, 30, "the idle stop")
        assert (stop["reason"], stop["sleep"], stop["save_seconds"]) == ("idle", "idle", 120)
        assert await asleep(hub, "ann") is None
        # Longer than `stop_timeout`: it saves, and nobody ends it meanwhile.
        await asyncio.sleep(6)
        assert (await agent.heartbeat()).is_success
        assert (await agent.event("stopped", session=saved())).status_code == 204
        await hub.wait_gone("ann")
    session = await asleep(hub, "ann")
    assert session is not None
    assert (session["id"], session["trigger"], session["variables"]) == ("s-1", "idle", 14)
    assert session["reason"].startswith("It had been idle for")
    assert session["kernels"][0]["path"] == "train.ipynb"
    assert 0.005 < session["usd_per_day"] < 0.02, "3 GiB of a gp3 volume"
    slept_at, expires_at = (
        datetime.fromisoformat(session[name]) for name in ("slept_at", "expires_at")
    )
    assert expires_at - slept_at == timedelta(days=3)
    for token in await strangers(hub):
        assert (await ask(hub, "GET", "ann", "session", token)).status_code == 403


async def test_only_its_owner_puts_a_server_to_sleep(hub: Hub) -> None:
    await hub.add_user("bob")
    bob = await hub.user_token("bob")
    reply = await ask(hub, "POST", "bob", "sleep", bob)
    assert (reply.status_code, "does not run" in reply.text) == (409, True)
    async with server_by_hand(hub, "bob") as agent:
        for token in await strangers(hub):
            reply = await ask(hub, "POST", "bob", "sleep", token)
            assert reply.status_code in {403, 404}
        assert (await agent.heartbeat()).json()["stop"] is None
        stop = await put_to_sleep(hub, agent, "bob", saved())
        assert (stop["reason"], stop["sleep"]) == ("user", "user")


async def stop_of_delete(
    hub: Hub, agent: AgentByHand, user: str, body: Any = None, token: str = ""
) -> dict[str, Any]:
    """The stop as an agent gets it, after a `DELETE` of its server with this body."""
    headers = {"Authorization": f"token {token}"} if token else {}
    deleting = asyncio.create_task(
        hub.api.request("DELETE", hub.server_path(user), json=body, headers=headers)
    )

    async def ordered() -> dict[str, Any] | None:
        stop: dict[str, Any] | None = (await agent.heartbeat(hold_seconds=1)).json()["stop"]
        return stop

    stop = await until(ordered, 30, "the stop")
    assert (await agent.event("stopped", session=saved())).status_code == 204
    reply = await deleting
    assert reply.status_code in {202, 204}, reply.text
    await hub.wait_gone(user)
    return stop


async def test_a_stop_over_jupyterhubs_api_sleeps_as_an_idle_one_does(hub: Hub) -> None:
    async with server_by_hand(hub, "kim") as agent:
        stop = await stop_of_delete(hub, agent, "kim")
        assert (stop["reason"], stop["sleep"], stop["save_seconds"]) == ("hub", "user", 120)
    assert await asleep(hub, "kim") is not None
    async with server_by_hand(hub, "kim") as agent:
        stop = await stop_of_delete(hub, agent, "kim", token=await hub.user_token("kim"))
        assert (stop["reason"], stop["sleep"]) == ("user", "user")


async def test_a_stop_over_jupyterhubs_api_may_choose_whether_to_sleep(hub: Hub) -> None:
    await hub.add_user("lou")
    own = await hub.user_token("lou")
    headers = {"Authorization": f"token {own}"}
    path = hub.server_path("lou")
    none = await hub.api.request("DELETE", path, json={"sleep": True}, headers=headers)
    assert (none.status_code, "does not run" in none.text) == (409, True)
    async with server_by_hand(hub, "lou") as agent:
        for body, said in (({"sleep": "no"}, "sleep"), ({"sleep": 0}, "sleep"), ([], "object")):
            wrong = await hub.api.request("DELETE", path, json=body, headers=headers)
            assert (wrong.status_code, said in wrong.text) == (400, True), body
        long = await hub.api.request("DELETE", path, json={"sleep": "x" * 70_000}, headers=headers)
        assert long.status_code == 413, "before it is parsed"
        assert (await agent.heartbeat()).json()["stop"] is None
        stop = await stop_of_delete(hub, agent, "lou", {"sleep": False}, own)
        assert (stop["reason"], stop["sleep"], stop["save_seconds"]) == ("user", None, 0)
    async with server_by_hand(hub, "lou") as agent:
        stop = await stop_of_delete(hub, agent, "lou", {"sleep": True}, own)
        assert (stop["message"], stop["sleep"]) == ("You put it to sleep", "user")


async def test_a_sleep_under_way_is_cut_short_by_whoever_may_stop_the_server(hub: Hub) -> None:
    async with server_by_hand(hub, "nia") as agent:
        own = await hub.user_token("nia")
        assert (await ask(hub, "POST", "nia", "sleep", own)).status_code == 202
        state = (await agent.heartbeat()).json()["state"]
        async with browser(hub, "nia") as page:
            offers = unescape((await page.get("/hub/home")).text)
        assert '"is_saving": true' in offers
        path, body = hub.server_path("nia"), {"sleep": False}
        await hub.add_user("eve")
        for token in (await hub.user_token("eve"), agent.token):
            headers = {"Authorization": f"token {token}"}
            foreign = await hub.api.request("DELETE", path, json=body, headers=headers)
            assert foreign.status_code in {403, 404}
        stop = (await agent.heartbeat()).json()["stop"]
        assert (stop["sleep"], stop["save_seconds"]) == ("user", 120)
        held = asyncio.create_task(agent.heartbeat(state_seen=state, hold_seconds=30))
        headers = {"Authorization": f"token {own}"}
        deleting = asyncio.create_task(hub.api.request("DELETE", path, json=body, headers=headers))
        stop = (await held).json()["stop"]
        assert (stop["reason"], stop["sleep"]) == ("user", None)
        assert (await agent.event("stopped")).status_code == 204
        assert (await deleting).status_code in {202, 204}
        await hub.wait_gone("nia")
    assert await asleep(hub, "nia") is None


async def test_a_stop_that_is_refused_ends_no_save(hub: Hub) -> None:
    async with server_by_hand(hub, "pat") as agent:
        own = await hub.user_token("pat")
        headers = {"Authorization": f"token {own}"}
        path = hub.server_path("pat")
        assert (await ask(hub, "POST", "pat", "sleep", own)).status_code == 202
        for choice in ({}, {"sleep": False}):
            body = {"remove": True, **choice}
            refused = await hub.api.request("DELETE", path, json=body, headers=headers)
            assert (refused.status_code, "default server" in refused.text) == (400, True)
        stop = (await agent.heartbeat()).json()["stop"]
        assert (stop["sleep"], stop["save_seconds"]) == ("user", 120)
        assert (await agent.event("stopped", session=saved())).status_code == 204
        await hub.wait_gone("pat")
    assert await asleep(hub, "pat") is not None


async def test_a_server_that_is_deleted_while_it_saves_is_deleted_after_that(hub: Hub) -> None:
    async with server_by_hand(hub, "kai", "lab") as agent:
        assert (await agent.say("stop", {"sleep": True})).status_code == 204
        path, body = hub.server_path("kai", "lab"), {"remove": True}
        deleting = asyncio.create_task(hub.api.request("DELETE", path, json=body))

        async def pending() -> bool:
            model = await hub.model("kai", "lab")
            return model is not None and model["pending"] == "stop"

        await until(pending, 30, "the stop")
        stop = (await agent.heartbeat()).json()["stop"]
        assert (stop["sleep"], stop["save_seconds"]) == ("user", 120)
        assert (await agent.event("stopped", session=saved())).status_code == 204
        assert (await deleting).status_code in {202, 204}

        async def removed() -> bool:
            model = (await hub.api.get("/users/kai?include_stopped_servers")).json()
            return "lab" not in model["servers"]

        await until(removed, 30, "the server to be deleted")


async def test_a_deleted_user_leaves_at_once(hub: Hub) -> None:
    async with server_by_hand(hub, "max") as agent:
        deleting = asyncio.create_task(hub.api.delete("/users/max"))

        async def ordered() -> Any:
            return (await agent.heartbeat(hold_seconds=1)).json()["stop"]

        stop = await until(ordered, 30, "the stop")
        assert stop["sleep"] is None, "nobody can wake it"
        assert (await agent.event("stopped")).status_code == 204
        assert (await deleting).status_code == 204
        await hub.add_user("max")  # for the end of this server by hand


async def test_a_start_wakes_it_or_starts_fresh(hub: Hub) -> None:
    async with server_by_hand(hub, "cid") as agent:
        assert (await agent.say("stop", {"sleep": True})).status_code == 204
        assert (await agent.heartbeat()).json()["stop"]["sleep"] == "user"
        assert (await agent.event("stopped", session=saved())).status_code == 204
        await hub.wait_gone("cid")
    async with server_by_hand(hub, "cid", options={"session": "fresh"}) as agent:
        assert agent.grant["environment"]["EC2SPAWNER_WAKE"] == "no"
        assert await asleep(hub, "cid") is not None, "it is still there"
    async with server_by_hand(hub, "cid") as agent:
        assert agent.grant["environment"]["EC2SPAWNER_WAKE"] == "sleeping", "fresh was once only"
        assert await asleep(hub, "cid") is None
    assert await asleep(hub, "cid") is None, "the agent has reported nothing that it saved"
    reply = await hub.request_server("cid", options={"session": "both"})
    assert (reply.status_code, "session" in reply.text) == (400, True)


async def test_what_a_fresh_start_left_asleep_stays_so_on_other_hardware(hub: Hub) -> None:
    async with server_by_hand(hub, "ivy") as agent:
        await put_to_sleep(hub, agent, "ivy", saved())
    async with server_by_hand(hub, "ivy", options={"session": "fresh"}) as agent:
        known = {each["instance_id"] for each in await hub.embedded.instances()}
        headers = {"Authorization": f"Bearer {await hub.user_token('ivy')}"}
        path, body = "/ec2/users/ivy/server/continue", {"profile": "a10g-24-gb"}
        foreign = await hub.api.post(path, json=body)
        assert foreign.status_code == 403, "a session is its owner's alone"
        unknown = await hub.api.post(path, json={"profile": "t5"}, headers=headers)
        assert unknown.status_code == 400
        reply = await hub.api.post(path, json=body, headers=headers)
        assert reply.status_code == 202, reply.text
        other = await agent_of_new_instance(hub, known)
        moving = asyncio.create_task(other.obtain_lease())

        async def stopping() -> Any:
            return (await agent.heartbeat(hold_seconds=1)).json()["stop"]

        assert (await until(stopping, 30, "the server to leave"))["sleep"] == "hardware"
        assert (await agent.event("stopped")).status_code == 204  # no kernel was open
        assert (await moving)["environment"]["EC2SPAWNER_WAKE"] == "no"
        await other.serve()
        await other.wait_home()
        assert (await other.event("ready", port=other.grant["port"])).status_code == 204
        await hub.wait_ready("ivy")
        session = await asleep(hub, "ivy")
        assert session is not None
        assert session["id"] == "s-1"
        await end_by_hand(other, "ivy")
    async with server_by_hand(hub, "ivy") as agent:
        assert agent.grant["environment"]["EC2SPAWNER_WAKE"] == "sleeping"
    assert await asleep(hub, "ivy") is None


async def test_the_pages_of_its_owner_lead_to_the_wake(hub: Hub) -> None:
    async with server_by_hand(hub, "gil") as agent:
        await put_to_sleep(hub, agent, "gil", saved())
    async with browser(hub, "gil") as ours:
        spawn = (await ours.get("/hub/spawn")).text
        assert "Your session is asleep" in spawn
        assert "14 variables, 3.2 GB" in spawn
        assert 'name="wake"' in spawn
        home = (await ours.get("/hub/home")).text
        assert "You put it to sleep. Your files and variables are kept." in home
        assert "train.ipynb" in spawn
    async with browser(hub, "admin") as theirs:
        spawn = (await theirs.get("/hub/spawn/gil")).text
        assert "train.ipynb" not in spawn, "names are their owner's alone"
        assert "The session of gil is asleep" in spawn
        assert "Your session" not in spawn
        stopped = (await theirs.get("/user/gil/")).text
        assert "You may start it for gil." in stopped
        assert "Start it for gil" in stopped
    async with browser(hub, "gus") as guest:
        stopped = (await guest.get("/user/gil/")).text
        assert "The session of this server has been asleep since" in stopped
        assert "Its owner stopped it. Its files are kept." in " ".join(stopped.split())
        assert "Ask gil to start it" in stopped
        assert '<span class="me-1">gus</span>' in stopped, "who has logged in"
        for not_theirs in ("Your ", "You put it", "Wake it", 'id="start"', "/hub/spawn/gil"):
            assert not_theirs not in stopped, not_theirs


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_sleep.py::"
    "test_a_session_is_recorded_with_its_end_and_outlives_the_hub"
)
async def test_what_sleeps_survives_the_hub(hub: Hub) -> None:
    async with server_by_hand(hub, "dan") as agent:
        await put_to_sleep(hub, agent, "dan", saved("s-9"))
    await hub.kill()
    await hub.start()
    session = await asleep(hub, "dan")
    assert session is not None
    assert session["id"] == "s-9"


async def test_an_account_wakes_nothing_of_a_deleted_one_of_its_name(hub: Hub) -> None:
    """Nor has it the home in which it sleeps."""
    async with server_by_hand(hub, "fay") as earlier:
        await put_to_sleep(hub, earlier, "fay", saved())
    assert (await hub.api.delete("/users/fay")).status_code == 204
    await hub.add_user("fay")
    assert await asleep(hub, "fay") is None
    async with server_by_hand(hub, "fay") as agent:
        assert agent.grant["home"]["volume_id"] != earlier.grant["home"]["volume_id"]

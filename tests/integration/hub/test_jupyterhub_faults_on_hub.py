"""Faults of JupyterHub that our users met: names of users, cancelled starts, stored options.

`test_jupyterhub_faults.py` shows what JupyterHub does without us.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from tests.harness import PASSWORD, Hub, running_hub, until
from tests.integration.hub.agent_by_hand import browser, xsrf_of

pytestmark = [pytest.mark.slow(seconds=60), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has users of its own, and leaves no server."""
    named = "c.JupyterHub.allow_named_servers = True"
    async with running_hub(tmp_path_factory.mktemp("faults"), named) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def slow_boots(hub: Hub) -> AsyncIterator[None]:
    """No start completes during the test."""
    await hub.embedded.control("boot", {"seconds": 3600})
    yield
    await hub.embedded.control("boot", {"seconds": 0})

    async def none_left() -> bool:
        return not await hub.embedded.instances()

    await until(none_left, 30, "what still boots to be gone")  # it would serve the next start


async def status(hub: Hub, user: str, token: str, server: str = "") -> tuple[int, bool]:
    """The status of what answers at a server's address, and whether that is the server."""
    path = f"/user/{user}/{server}/api/status" if server else f"/user/{user}/api/status"
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60, verify=False) as client:
        reply = await client.get(f"{hub.url}{path}")
    return reply.status_code, reply.is_success and "started" in reply.json()


async def rename(hub: Hub, user: str, new: str) -> httpx.Response:
    return await hub.api.patch(f"/users/{user}", json={"name": new})


async def restart(hub: Hub) -> None:
    await hub.kill()
    await hub.start()


# --- names of users ---


async def test_a_user_who_is_renamed_has_servers_at_the_new_address(hub: Hub) -> None:
    await hub.start_server("ann")
    await hub.stop_server("ann")
    assert (await rename(hub, "ann", "bob")).is_success
    await hub.start_server("bob")
    model = await hub.start_server("bob", "lab")
    assert model["url"] == "/user/bob/lab/"
    token = await hub.user_token("bob")
    # The next user of the name has the address, and a log-in, of her own.
    await hub.start_server("ann")
    new_token = await hub.user_token("ann")
    for _ in range(2):
        assert await status(hub, "bob", token) == (200, True)
        assert await status(hub, "bob", token, "lab") == (200, True)
        assert await status(hub, "ann", new_token) == (200, True)
        await restart(hub)
        for user, server in (("bob", ""), ("bob", "lab"), ("ann", "")):
            await hub.wait_ready(user, server)
    for user, server in (("bob", ""), ("bob", "lab"), ("ann", "")):
        await hub.stop_server(user, server)


@pytest.mark.parametrize("server", ["", "lab"])
async def test_no_user_is_renamed_while_a_server_runs(hub: Hub, server: str) -> None:
    """The server would let in the next user of the old name, and not its owner."""
    user = f"cleo{server}"
    await hub.start_server(user, server)
    for _ in range(2):
        reply = await rename(hub, user, f"{user}-new")
        assert reply.status_code == 409
        assert f"Stop first: {server or 'the default server'}" in reply.json()["message"]
        await restart(hub)  # with the check after it, it still does not stop
    await hub.wait_ready(user, server)
    assert (await status(hub, user, await hub.user_token(user), server)) == (200, True)
    await hub.stop_server(user, server)
    assert (await rename(hub, user, f"{user}-new")).is_success


@pytest.mark.usefixtures("slow_boots")
async def test_no_user_is_renamed_while_a_server_starts(hub: Hub) -> None:
    await hub.add_user("dora")
    starting = asyncio.create_task(hub.request_server("dora"))
    await until(lambda: pending(hub, "dora"), 20, "the start")
    assert (await rename(hub, "dora", "dodo")).status_code == 409
    assert (await hub.api.delete("/users/dora")).status_code == 409
    await hub.stop_server("dora")
    await starting


async def pending(hub: Hub, user: str) -> bool:
    model = await hub.model(user)
    return model is not None and model["pending"] == "spawn"


async def test_a_server_of_a_user_whose_name_has_changed_otherwise_ends(hub: Hub) -> None:
    """As by a script that writes into JupyterHub's database: its address answers nobody."""
    await hub.start_server("eva")
    await hub.start_server("eva", "lab")
    await hub.kill()
    with closing(sqlite3.connect(hub.directory / "jupyterhub.sqlite")) as database, database:
        database.execute("UPDATE users SET name = 'evi' WHERE name = 'eva'")
    await hub.start()
    await hub.wait_gone("evi")
    await hub.wait_gone("evi", "lab")
    async with browser(hub, "evi") as client:
        page = (await client.get("/hub/spawn/evi")).text
    assert "Your account was renamed" in page
    await hub.start_server("evi")
    assert await status(hub, "evi", await hub.user_token("evi")) == (200, True)
    await hub.stop_server("evi")


async def test_a_user_who_is_renamed_to_the_same_name_keeps_it(hub: Hub) -> None:
    await hub.add_user("fay")
    reply = await rename(hub, "fay", "fay")
    assert (reply.status_code, reply.json()["name"]) == (200, "fay")
    assert (await hub.api.get("/users/fay")).is_success


async def test_a_user_with_a_named_server_that_runs_is_not_deleted(hub: Hub) -> None:
    await hub.start_server("gil", "lab")
    reply = await hub.api.delete("/users/gil")
    assert reply.status_code == 409
    assert "Stop first: lab" in reply.json()["message"]
    await hub.stop_server("gil", "lab")
    assert (await hub.api.delete("/users/gil")).status_code == 204


async def test_a_named_server_and_a_user_of_that_name_have_log_ins_of_their_own(hub: Hub) -> None:
    """JupyterHub would name the OAuth clients of both `jupyterhub-user-ian-b`."""
    await hub.start_server("ian-b")
    before = clients(hub)
    await hub.start_server("ian", "b")
    assert before.items() < clients(hub).items()
    await asyncio.gather(hub.stop_server("ian-b"), hub.stop_server("ian", "b"))
    assert clients(hub).keys() == {"jupyterhub"}


def clients(hub: Hub) -> dict[str, Any]:
    """OAuth client -> where it sends browsers, and its secret."""
    with closing(sqlite3.connect(hub.directory / "jupyterhub.sqlite")) as database:
        found = database.execute("SELECT identifier, redirect_uri, secret FROM oauth_clients")
        return {identifier: rest for identifier, *rest in found}


NAMES: dict[str, str] = {
    "..": "for a step to another folder",
    "%2e%2e": "for a step to another folder",
    "a/b": "a slash",
    "a\0b": "control characters",
    "x" * 256: "more than 255 characters",
}


@pytest.mark.parametrize(("name", "reason"), NAMES.items(), ids=[ascii(x)[1:9] for x in NAMES])
async def test_a_name_with_which_nothing_works_is_refused_with_the_reason(
    hub: Hub, name: str, reason: str
) -> None:
    await hub.add_user("nia")
    replies = [
        await hub.api.post("/users", json={"usernames": [name]}),
        await hub.api.patch("/users/nia", json={"name": name}),
    ]
    if name != "..":  # proxies resolve that in an address
        replies.append(await hub.api.post(f"/users/{quote(name, safe='')}"))
    for reply in replies:
        assert reply.status_code == 400, reply.text
        assert reason in reply.json()["message"]
    if not name.isprintable():
        return  # a form cannot send it
    async with httpx.AsyncClient(base_url=hub.url, verify=False, timeout=60) as client:
        xsrf = await xsrf_of(client, "/hub/login")
        form = {"username": name, "password": PASSWORD, "_xsrf": xsrf}
        page = await client.post("/hub/login", data=form)
    assert page.status_code == 400
    assert reason in page.text


@pytest.mark.parametrize("name", ["%252e%252e", "My lab", "a--b", "x" * 31])
async def test_a_name_that_no_server_can_have_is_refused_with_the_rule(hub: Hub, name: str) -> None:
    await hub.add_user("oli")
    path = f"/users/oli/servers/{name}"
    for reply in (
        await hub.api.post(path, json={}),
        await hub.api.put(path, json={}),
    ):
        assert reply.status_code == 400
        assert "begins with a lower-case letter" in reply.json()["message"]


# --- a start that its user cancels ---


@pytest.mark.usefixtures("slow_boots")
async def test_a_start_that_is_cancelled_says_so(hub: Hub) -> None:
    logged = len(hub.log.read_text())
    await hub.add_user("kim")
    starting = asyncio.create_task(hub.request_server("kim"))
    await until(lambda: pending(hub, "kim"), 20, "the start")
    await hub.stop_server("kim")
    reply = await starting
    assert reply.status_code == 409
    assert "was cancelled" in reply.json()["message"]
    async with browser(hub, "kim") as client:
        xsrf = await xsrf_of(client, "/hub/spawn/kim")
        page = await client.post(f"/hub/spawn/kim?_xsrf={xsrf}", data={"profile": "cpu"})
        assert page.url.path == "/hub/spawn-pending/kim"
        await hub.stop_server("kim")
        page = await client.get("/hub/spawn-pending/kim")
        assert page.status_code == 200, page.text
    assert "Traceback" not in hub.log.read_text()[logged:]


# --- options that are stored without a start ---

REFUSED: dict[str, dict[str, Any]] = {
    "no such option": {"image": "mine"},
    "no such profile": {"profile": "none-of-ours"},
    "for one start only": {"session": "fresh"},
    "needs the scope": {"temporary": 600},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
async def test_options_that_no_start_would_follow_are_not_stored(
    hub: Hub, options: dict[str, Any]
) -> None:
    await hub.add_user("lea")
    headers = {"Authorization": f"token {await hub.user_token('lea')}"}
    async with httpx.AsyncClient(
        base_url=f"{hub.url}/hub/api", headers=headers, verify=False, timeout=60
    ) as lea:
        path = f"/users/lea/servers/x{list(REFUSED.values()).index(options)}"
        for body in (options, {"user_options": options}):
            assert (await lea.put(path, json=body)).status_code == 400
        assert (await lea.get(path)).status_code == 404
        assert (await lea.put(path, json={"profile": "cpu"})).status_code == 201
        reply = await lea.patch(path, json={"user_options": options})
        assert reply.status_code == 400
        assert reply.json()["message"]
        assert (await lea.get(path)).json()["user_options"] == {"profile": "cpu"}


@pytest.mark.parametrize("remove", ["no", 1, None])
async def test_a_server_is_removed_only_for_true(hub: Hub, remove: object) -> None:
    await hub.add_user("pia")
    await hub.api.put("/users/pia/servers/lab", json={})
    path = "/users/pia/servers/lab"
    reply = await hub.api.request("DELETE", path, json={"remove": remove})
    assert reply.status_code == 400
    assert reply.json()["message"] == "remove: must be true or false"
    assert (await hub.api.get(path)).is_success


@pytest.mark.parametrize(
    "body", [[], [1], {}, {"other": 1}, {"name": 5}, {"display_name": None}, {"user_options": []}]
)
async def test_a_change_of_a_server_that_is_none_is_refused(hub: Hub, body: Any) -> None:
    await hub.add_user("mia")
    await hub.api.put("/users/mia/servers/lab", json={})
    reply = await hub.api.patch("/users/mia/servers/lab", json=body)
    assert reply.status_code == 400
    assert reply.json()["message"]

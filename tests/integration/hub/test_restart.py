"""The hub is killed, its store is lost: servers run on, cost is still counted, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, running_hub, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.asyncio(loop_scope="module")]

CONFIG = """
import asyncio
c.EC2Spawner.stop_timeout = "3s"
def hold(spawner):
    return asyncio.sleep(60 if spawner.user.name.startswith("größe") else 0)
c.Spawner.pre_spawn_hook = hold
"""
"""The start of one user does not come to the point at which it is stored."""

ROUNDING = 1e-9
"""USD: the same sum of two stretches of time and of one."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has users of its own, and leaves no server."""
    async with running_hub(tmp_path_factory.mktemp("restart"), CONFIG) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def embedded(shared_hub: Hub) -> AsyncIterator[Embedded]:
    """In order, and without instances."""
    await until_nothing_runs(shared_hub.embedded)
    yield shared_hub.embedded
    await shared_hub.embedded.clear_faults()
    await shared_hub.embedded.control("boot", {"seconds": 0})


@pytest_asyncio.fixture(loop_scope="module")
async def hub(shared_hub: Hub, embedded: Embedded) -> Hub:
    return shared_hub


async def until_nothing_runs(embedded: Embedded) -> None:
    async def nothing() -> bool:
        return not await embedded.instances()

    await until(nothing, 20, "all instances to be gone")


async def current_cost(hub: Hub, user: str, token: str) -> float:
    async def answered() -> float | None:
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            reply = await client.get(
                f"{hub.url}/user/{user}/ec2spawner/api/status",
                headers={"Authorization": f"token {token}"},
            )
        cost = reply.json().get("cost") if reply.status_code == 200 else None
        return cost["usd"] if cost else None

    return await until(answered, 30, "the server's status to carry a cost")


async def test_a_restarted_hub_recovers_its_servers(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("ann")
    await hub.start_server("ann", "second")
    token = await hub.user_token("ann")
    before = await current_cost(hub, "ann", token)
    instances = {i["instance_id"] for i in await embedded.instances()}

    logged = len(hub.log.read_text())
    await hub.kill()
    await hub.start()

    await hub.wait_ready("ann")
    await hub.wait_ready("ann", "second")
    # It served before it had heard of them, as it must: agents are heard by a hub that serves.
    assert "init_spawners did not complete within 0 seconds" in hub.log.read_text()[logged:]
    assert {i["instance_id"] for i in await embedded.instances()} == instances
    assert await current_cost(hub, "ann", token) >= before - ROUNDING
    assert len(await hub.server_tokens("ann")) == 2
    await hub.stop_server("ann")
    await hub.stop_server("ann", "second")
    assert not await hub.server_tokens("ann")
    assert not await embedded.instances()


async def test_a_hub_killed_during_a_stop_does_not_search_for_the_server(
    hub: Hub, embedded: Embedded
) -> None:
    await hub.start_server("ben")
    calls = len(await embedded.calls("TerminateInstances"))
    await embedded.control("faults", {"action": "TerminateInstances", "kind": "hang", "times": 1})
    request = asyncio.create_task(hub.api.delete(hub.server_path("ben")))

    async def terminating() -> bool:
        return len(await embedded.calls("TerminateInstances")) > calls

    await until(terminating, 20, "the instance to be terminated")
    await hub.kill()
    with suppress(httpx.HTTPError):
        await request
    await hub.start()

    # Well before `http_timeout`, until which JupyterHub looks for a server that it takes for alive.
    await hub.wait_gone("ben", timeout=20)
    assert not await hub.server_tokens("ben")
    await until_nothing_runs(embedded)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/failures/test_recovery.py::"
    "test_lost_store_ends_no_server_for_jupyterhub"
)
async def test_lost_store_ends_no_server(hub: Hub, embedded: Embedded) -> None:
    made = len(await embedded.calls("CreateVolume"))
    await hub.start_server("cat")
    token = await hub.user_token("cat")
    before = await current_cost(hub, "cat", token)
    instances = {i["instance_id"] for i in await embedded.instances()}

    await hub.kill()
    for file in hub.directory.glob("ec2spawner.sqlite*"):
        file.unlink()
    await hub.start()

    await hub.wait_ready("cat")
    assert await current_cost(hub, "cat", token) >= before - ROUNDING
    assert {i["instance_id"] for i in await embedded.instances()} == instances
    await hub.stop_server("cat")
    assert not await hub.server_tokens("cat")
    assert not await embedded.instances()
    await hub.start_server("cat")  # the home is found again, and not an empty one made
    assert len(await embedded.calls("CreateVolume")) == made + 1
    await hub.stop_server("cat")


async def test_a_start_continues_after_the_hub_was_killed(hub: Hub, embedded: Embedded) -> None:
    await embedded.control("boot", {"seconds": 5})
    request = asyncio.create_task(hub.request_server("dan"))

    async def launched() -> bool:
        return bool(await embedded.instances())

    await until(launched, 40, "an instance to be launched")
    await hub.kill()
    with suppress(httpx.HTTPError):
        await request
    await hub.start()
    await hub.wait_ready("dan")
    [instance] = await embedded.instances()

    async def saved() -> bool:
        with closing(sqlite3.connect(hub.directory / "jupyterhub.sqlite")) as database:
            [[state]] = database.execute(
                "SELECT spawners.state FROM spawners JOIN users ON users.id = spawners.user_id "
                "WHERE users.name = 'dan'"
            )
        return str(instance["instance_id"]) in state

    await until(saved, 20, "JupyterHub's own record of the server")
    await hub.stop_server("dan")
    assert not await hub.server_tokens("dan")


async def test_a_hub_killed_before_a_start_is_stored_leaves_no_token(hub: Hub) -> None:
    user = "größe-ünï"
    request = asyncio.create_task(hub.request_server(user))
    await hub.add_user(user)

    async def has_token() -> bool:
        return bool(await hub.server_tokens(user))

    await until(has_token, 20, "a token for the server")
    await hub.kill()
    with suppress(httpx.HTTPError):
        await request
    await hub.start()
    await hub.wait_gone(user)
    assert not await hub.server_tokens(user)


async def answers(hub: Hub, user: str, token: str) -> bool:
    """Whether a request through the proxy reaches the user's notebook."""
    async with httpx.AsyncClient(verify=False) as client:
        reply = await client.get(
            f"{hub.url}/user/{user}/api/status", headers={"Authorization": f"token {token}"}
        )
    return reply.status_code == 200


async def freeze(embedded: Embedded, instance_id: str) -> None:
    """Stop everything on an instance, which EC2 keeps listing as running."""
    for instance in await embedded.instances():
        if instance["instance_id"] == instance_id:
            for process in instance["processes"]:
                with suppress(ProcessLookupError):
                    os.kill(process["pid"], signal.SIGSTOP)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start_check.py::"
    "test_an_unresponsive_server_is_awaited_until_it_ends"
)
async def test_a_silent_server_does_not_block_others_after_a_restart(
    hub: Hub, embedded: Embedded
) -> None:
    await asyncio.gather(hub.start_server("eve"), hub.start_server("fay"))
    others = {i["instance_id"] for i in await embedded.instances()}
    await hub.start_server("gus")
    (silent,) = {i["instance_id"] for i in await embedded.instances()} - others
    tokens = {user: await hub.user_token(user) for user in ("eve", "fay")}
    await freeze(embedded, silent)
    await hub.kill()
    await hub.start()

    async def both_answer() -> bool:
        return all([await answers(hub, user, token) for user, token in tokens.items()])

    # Far below `agent_silent_after`, and while the silent one is still under check.
    await until(both_answer, 30, "the servers whose agents speak to be reachable")
    gus = await hub.model("gus")
    assert gus is not None
    assert gus["pending"] == "check"
    assert (await hub.request_server("gus")).status_code == 400
    async with browser(hub, "gus") as person:
        page = await person.get("/hub/user-redirect/lab")
    assert page.url.path == "/hub/spawn-pending/gus"
    assert 'id="ec2-checking"' in page.text
    assert {i["instance_id"] for i in await embedded.instances()} == {*others, silent}

    # A stop that JupyterHub refuses: the check that it has cut short begins again.
    refused = await hub.api.request("DELETE", "/users/gus/server", json={"remove": True})
    assert refused.status_code == 400
    gus = await hub.model("gus")
    assert gus is not None
    assert gus["pending"] == "check"

    await hub.stop_server("gus", sleep=False)  # its agent would be awaited for the save
    assert not await hub.server_tokens("gus")
    assert {i["instance_id"] for i in await embedded.instances()} == others
    assert await both_answer()
    async with browser(hub, "gus") as person:
        page = await person.get("/user/gus/lab")
    assert page.status_code == 424
    assert "The service demo asked for it" in page.text
    await hub.start_server("gus")
    await asyncio.gather(*(hub.stop_server(user) for user in ("eve", "fay", "gus")))

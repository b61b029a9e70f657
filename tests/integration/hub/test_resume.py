"""AWS reclaims a server's spot instance, and the server continues on another one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, running_hub, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = [pytest.mark.slow(seconds=110), pytest.mark.asyncio(loop_scope="module")]

A10G = "a10g-24-gb"
STOPS_WITH_A10G = """
for each in c.EC2Spawner.profile_list:
    if each["display_name"].startswith("A10G"):
        each["interruption"] = {"then": "stop"}
"""

MANY_OFFERS = {
    "display_name": "Many",
    "slug": "many",
    "instance_types": ["c5.2xlarge", "c6i.2xlarge", "r5.2xlarge", "r6i.2xlarge"],
}
"""The hub remembers for minutes what AWS reclaimed: here it has spot instances nevertheless."""

REFUSES = f"""
from pathlib import Path
c.EC2Spawner.profile_list.append({MANY_OFFERS})
for each in c.EC2Spawner.profile_list:
    each["groups"] = lambda spawner: not Path(f"refused-{{spawner.user.name}}").exists()
"""
"""No profile is offered to a user who has such a file in the hub's folder."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has a user of its own, and leaves no server."""
    folder = tmp_path_factory.mktemp("resume")
    async with running_hub(folder, STOPS_WITH_A10G, REFUSES) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def embedded(hub: Hub) -> AsyncIterator[Embedded]:
    """With capacity, boots without delay, and no instances."""
    await until(lambda: none_left(hub.embedded), 30, "the last test's instances to be gone")
    yield hub.embedded
    await hub.embedded.control("boot", {"seconds": 0})
    await set_capacity(hub.embedded, None)


async def set_capacity(embedded: Embedded, available: int | None) -> None:
    offer = {"market": "*", "instance_type": "*", "zone": "*", "available": available}
    await embedded.control("capacity", offer)


async def the_instance(embedded: Embedded) -> str:
    [instance] = await embedded.instances()
    found: str = instance["instance_id"]
    return found


async def interrupt(embedded: Embedded, instance_id: str, seconds: float = 120) -> datetime:
    """When."""
    at = datetime.now(UTC)
    await embedded.control(f"interrupt/{instance_id}", {"notice_seconds": seconds})
    return at


async def moved(hub: Hub, at: datetime, user: str) -> dict[str, Any]:
    """JupyterHub's model of the server once it has started again since then, and is ready.

    The old instance may run on: EC2 reclaims it at the announced time.
    """

    async def again() -> dict[str, Any] | None:
        model = await hub.model(user)
        is_ready = model is not None and model["ready"]
        return model if is_ready and datetime.fromisoformat(model["started"]) > at else None

    return await until(again, 60, f"the server of {user} to continue")


async def page(client: httpx.AsyncClient) -> int:
    """The status of ann's server's answer to a browser that does not follow redirects."""
    reply = await client.get("/user/ann/api/status", follow_redirects=False)
    return reply.status_code


@pytest.mark.nightly(
    guard="tests/integration/hub/test_sessions_wake.py::"
    "test_variables_are_back_after_an_interruption"
)
@pytest.mark.usefixtures("jupyterlab")
async def test_a_server_continues_at_the_same_address(hub: Hub, embedded: Embedded) -> None:
    before = await hub.start_server("ann")
    old, tokens = await the_instance(embedded), await hub.server_tokens("ann")
    async with browser(hub, "ann") as client:
        await client.get("/user/ann/lab", follow_redirects=True)
        assert await page(client) == 200
        body = {"type": "file", "format": "text", "content": "kept"}
        written = await client.put(
            "/user/ann/api/contents/notes.txt",
            json=body,
            headers={"X-XSRFToken": xsrf(client)},
        )
        assert written.is_success, written.text

        launches = len(await embedded.calls("CreateFleet"))
        at, _ = await asyncio.gather(*(interrupt(embedded, old) for _ in range(2)))
        await interrupt(embedded, old, 100)
        after = await moved(hub, at, "ann")

        assert len(await embedded.calls("CreateFleet")) == launches + 1, "however many notices"
        assert after["url"] == before["url"]
        assert await page(client) == 200, "its cookie needs no new login"
        notes = await client.get("/user/ann/api/contents/notes.txt")
        assert notes.json()["content"] == "kept"
    assert await hub.server_tokens("ann") == tokens, "the token is the one that it had"
    async with browser(hub, "ann") as another:
        reply = await another.get("/user/ann/lab", follow_redirects=True)
        assert reply.status_code == 200, "a new browser can log in"

    # And it stops as any server does.
    await hub.stop_server("ann")
    assert not await hub.server_tokens("ann")
    await until(lambda: none_left(embedded), 20, "all instances to be gone")


def xsrf(client: httpx.AsyncClient) -> str:
    [value] = {x.value for x in client.cookies.jar if x.name == "_xsrf" and "/user/" in x.path}
    return str(value)


async def none_left(embedded: Embedded) -> bool:
    return not await embedded.instances()


async def until_none_is_left_for(embedded: Embedded, seconds: float) -> None:
    """A launch that was under way may bring one more instance, which the hub terminates."""
    quiet_since = time.monotonic()

    async def is_quiet() -> bool:
        nonlocal quiet_since
        if not await none_left(embedded):
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since >= seconds

    await until(is_quiet, 30, "all instances to be gone")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continuation.py::"
    "test_the_hub_restarts_while_the_server_moves"
)
@pytest.mark.usefixtures("jupyterlab")
async def test_a_hub_that_is_killed_while_it_moves(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("cid")
    old, tokens = await the_instance(embedded), await hub.server_tokens("cid")
    await embedded.control("boot", {"seconds": 3})
    at = await interrupt(embedded, old)

    async def launched() -> bool:
        return len(await embedded.instances()) == 2

    await until(launched, 30, "another instance")
    await hub.kill()
    await hub.start()
    await moved(hub, at, "cid")

    assert set(tokens) <= set(await hub.server_tokens("cid"))
    async with browser(hub, "cid") as client:
        reply = await client.get("/user/cid/lab", follow_redirects=True)
        assert reply.status_code == 200
    await hub.stop_server("cid")
    assert not await hub.server_tokens("cid")
    await until(lambda: none_left(embedded), 20, "all instances to be gone")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continuation.py::"
    "test_the_hub_restarts_while_the_server_moves"
)
@pytest.mark.usefixtures("jupyterlab")
async def test_a_hub_that_is_killed_while_the_server_starts_again(
    hub: Hub, embedded: Embedded
) -> None:
    await hub.start_server("dan")
    old, tokens = await the_instance(embedded), await hub.server_tokens("dan")
    await embedded.control("boot", {"seconds": 5})
    at = await interrupt(embedded, old, 0)

    async def starting() -> bool:
        model = await hub.model("dan")
        return model is not None and model["pending"] == "spawn"

    await until(starting, 30, "JupyterHub to start it again")
    await hub.kill()
    await hub.start()
    await moved(hub, at, "dan")

    assert set(tokens) <= set(await hub.server_tokens("dan"))
    async with browser(hub, "dan") as client:
        reply = await client.get("/user/dan/lab", follow_redirects=True)
        assert reply.status_code == 200
    await hub.stop_server("dan")
    assert not await hub.server_tokens("dan")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_resume.py::test_its_user_stops_a_server_that_moves"
)
async def test_its_user_stops_it_while_it_moves(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("eva")
    old = await the_instance(embedded)
    await embedded.control("boot", {"seconds": 5})
    await interrupt(embedded, old, 0)

    async def starting() -> bool:
        model = await hub.model("eva")
        return model is not None and model["pending"] == "spawn"

    await until(starting, 30, "JupyterHub to start it again")
    reply = await hub.api.delete(hub.server_path("eva"))
    assert reply.status_code in {202, 204}, reply.text
    await hub.wait_gone("eva")
    # A launch may have been under way. 3 seconds: longer than the hub's pause between two scans.
    await until_none_is_left_for(embedded, 3)
    bought = len(await embedded.calls("CreateFleet"))
    await until_none_is_left_for(embedded, 3)
    assert len(await embedded.calls("CreateFleet")) == bought
    assert not await hub.server_tokens("eva")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continuation.py::"
    "test_its_user_reads_why_it_did_not_continue_whichever_lease_is_closed_last"
)
async def test_no_other_instance_can_be_had(hub: Hub, embedded: Embedded) -> None:
    # The hub remembers for minutes what was sold out: none of this is another test's.
    await hub.start_server("fay", options={"profile": "cpu"})
    old = await the_instance(embedded)
    await set_capacity(embedded, 0)
    await interrupt(embedded, old, 20)
    async with browser(hub, "fay") as client:

        async def is_said() -> bool:
            text = (await client.get("/hub/spawn/fay")).text
            return "AWS reclaimed the machine, and there was no other" in text

        await until(is_said, 60, "the spawn page to say why it ended")
    await until(lambda: none_left(embedded), 20, "all instances to be gone")
    assert not await hub.server_tokens("fay")


@pytest.mark.nightly(guard="tests/unit/provisioner/lifecycle/test_continuation.py::test_policies")
async def test_an_admin_who_wants_it_to_stop(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("gus", options={"profile": A10G})
    launches = len(await embedded.calls("CreateFleet"))
    await interrupt(embedded, await the_instance(embedded), 0)
    await hub.wait_gone("gus")
    await until(lambda: none_left(embedded), 20, "all instances to be gone")
    assert len(await embedded.calls("CreateFleet")) == launches
    assert not await hub.server_tokens("gus")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continue_on_other_hardware.py::"
    "test_a_server_moves_once_the_other_instance_has_booted"
)
async def test_its_owner_continues_on_other_hardware(hub: Hub, embedded: Embedded) -> None:
    before = await hub.start_server("hal")
    old, tokens = await the_instance(embedded), await hub.server_tokens("hal")
    path = "/ec2/users/hal/server/continue"
    headers = {"Authorization": f"token {await hub.user_token('hal')}"}
    refused = await hub.api.post(path, json={"profile": "t5"}, headers=headers)
    assert refused.status_code == 400
    foreign = await hub.api.post(path, json={"profile": A10G})
    assert foreign.status_code == 403, "a session is its owner's alone"

    asked_at = datetime.now(UTC)
    begun = await hub.api.post(path, json={"profile": A10G}, headers=headers)
    assert begun.status_code == 202, begun.text
    move = (await hub.api.get(path, headers=headers)).json()["move"]
    assert (move["trigger"], move["profile"]) == ("hardware", A10G)
    after = await moved(hub, asked_at, "hal")

    assert after["url"] == before["url"]
    assert after["user_options"]["profile"] == A10G, "later starts are like this one"
    assert await hub.server_tokens("hal") == tokens

    async def has_left() -> bool:
        return old not in [each["instance_id"] for each in await embedded.instances()]

    await until(has_left, 30, "the old instance to be gone")
    [instance] = await embedded.instances()
    assert instance["instance_type"].startswith("g5.")
    assert (await hub.api.get(path, headers=headers)).json()["move"] is None
    await hub.stop_server("hal")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_resume.py::"
    "test_options_that_are_refused_by_now_do_not_end_a_server_that_moves"
)
async def test_without_notice_and_the_profile_withdrawn_meanwhile(
    hub: Hub, embedded: Embedded
) -> None:
    options = {"profile": "many"}
    await hub.start_server("ida", options=options)
    old, tokens = await the_instance(embedded), await hub.server_tokens("ida")
    (hub.directory / "refused-ida").touch()

    at = await interrupt(embedded, old, 0)
    after = await moved(hub, at, "ida")

    assert await hub.server_tokens("ida") == tokens
    assert after["user_options"] == options, "what the user chose is kept for a later start"
    await hub.stop_server("ida")
    refused = await hub.request_server("ida")
    assert refused.status_code == 400
    assert "is not open to you" in refused.json()["message"]


@pytest.mark.nightly(
    guard="tests/integration/hub/test_jupyterhub_faults_on_hub.py::"
    "test_no_user_is_renamed_while_a_server_runs"
)
async def test_a_user_is_not_renamed_between_two_moves_and_deleted_then(
    hub: Hub, embedded: Embedded
) -> None:
    await hub.start_server("jon", options={"profile": "many"})
    for _ in range(2):
        at = await interrupt(embedded, await the_instance(embedded), 0)
        reply = await hub.api.patch("/users/jon", json={"name": "joe"})
        assert reply.status_code == 409, "its server would continue at the old address"
        await moved(hub, at, "jon")
    assert len(await hub.server_tokens("jon")) == 1

    async def is_deleted() -> bool:
        reply = await hub.api.delete("/users/jon")  # 400 while its server is being stopped
        return reply.status_code in {204, 404}

    await until(is_deleted, 30, "the user to be deleted")
    await until(lambda: none_left(embedded), 20, "all instances to be gone")

"""Spot notices at bad moments, on one hub: while it is down, during a start or a stop, and while
JupyterHub awaits a hook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ec2spawner.core.tags import USER
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=55)]

HOOK = """
import asyncio, pathlib
async def hold(spawner):
    folder = pathlib.Path({folder!r})
    while (folder / spawner.user.name).exists():
        (folder / "held").touch()
        await asyncio.sleep(0.05)
c.Spawner.pre_spawn_hook = hold
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Its hook before a start waits while a file with the user's name is in the hub's folder."""
    directory = tmp_path_factory.mktemp("hub")
    config = demo_config(directory, HOOK.format(folder=str(directory)))
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(200))


async def instances_of(embedded: Embedded, user: str) -> list[str]:
    """Ids of the instances that serve this user and have not ended."""
    filters = [
        {"Name": f"tag:{USER}", "Values": [user]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    answer = await asyncio.to_thread(embedded.client().describe_instances, Filters=filters)
    return [i["InstanceId"] for r in answer["Reservations"] for i in r["Instances"]]


async def interrupt(embedded: Embedded, instance_id: str, seconds: float = 120) -> None:
    await embedded.control(f"interrupt/{instance_id}", {"notice_seconds": seconds})


async def moved(hub: Hub, embedded: Embedded, user: str, old: str) -> str:
    """The id of the only instance on which the server is ready again."""

    async def on_another() -> str:
        found = await instances_of(embedded, user)
        return found[0] if len(found) == 1 and found[0] != old else ""

    instance_id = await until(on_another, 60, "the other instance only")
    await hub.wait_ready(user)
    return instance_id


async def nothing_left(hub: Hub, embedded: Embedded, user: str) -> None:
    """Neither an instance nor a token of this user's server."""
    await hub.wait_gone(user)

    async def none_runs() -> bool:
        return not await instances_of(embedded, user)

    await until(none_runs, 30, "its instances to be gone")
    assert not await hub.server_tokens(user)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continuation.py::test_a_notice_while_no_hub_runs"
)
async def test_two_notices_while_the_hub_is_down(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("ann")
    [first], tokens = await instances_of(embedded, "ann"), await hub.server_tokens("ann")
    await hub.kill()
    await interrupt(embedded, first, 30)
    await interrupt(embedded, first, 10)

    async def is_gone() -> bool:
        return not await instances_of(embedded, "ann")

    await until(is_gone, 30, "the end of the first instance")
    await hub.start()
    await moved(hub, embedded, "ann", first)

    assert set(tokens) <= set(await hub.server_tokens("ann"))
    headers = {"Authorization": f"token {await hub.user_token('ann')}"}
    reply = await hub.api.get(f"{hub.url}/user/ann/api/status", headers=headers)
    assert reply.status_code == 200, "route, server and the server's token are good"
    await hub.stop_server("ann")
    await nothing_left(hub, embedded, "ann")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start.py::"
    "test_an_instance_that_dies_before_its_claim_is_replaced"
)
async def test_a_notice_during_a_start(hub: Hub, embedded: Embedded) -> None:
    await embedded.control("boot", {"seconds": 2})
    launched = {i["instance_id"] for i in await embedded.instances()}
    starting = asyncio.create_task(hub.start_server("bob"))
    try:

        async def boots() -> str:
            found = {i["instance_id"] for i in await embedded.instances()} - launched
            return found.pop() if found else ""

        first = await until(boots, 30, "an instance that boots")
        await interrupt(embedded, first, 1)
        await starting
    finally:
        starting.cancel()
        await embedded.control("boot", {"seconds": 0})
    assert first not in await instances_of(embedded, "bob")
    await hub.stop_server("bob")
    await nothing_left(hub, embedded, "bob")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_continuation.py::"
    "test_a_notice_during_a_stop_buys_no_other_instance"
)
async def test_a_notice_during_a_stop(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("eve")
    [first] = await instances_of(embedded, "eve")
    stopping = asyncio.create_task(hub.stop_server("eve"))
    await interrupt(embedded, first, 5)
    await stopping

    await nothing_left(hub, embedded, "eve")
    await asyncio.sleep(3)  # longer than the hub's pause between two looks
    await nothing_left(hub, embedded, "eve")


async def sell(embedded: Embedded, available: int | None) -> None:
    offer: dict[str, Any] = {"market": "*", "instance_type": "*", "zone": "*"}
    await embedded.control("capacity", offer | {"available": available})


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_resume.py::"
    "test_a_server_that_ends_while_a_hook_is_awaited_starts_no_other"
)
async def test_a_server_that_cannot_continue_while_a_hook_is_awaited(
    hub: Hub, embedded: Embedded
) -> None:
    await hub.start_server("leo")
    [first] = await instances_of(embedded, "leo")
    hold, held = Path(hub.directory / "leo"), Path(hub.directory / "held")
    hold.touch()
    await sell(embedded, 0)
    try:
        await interrupt(embedded, first, 0)

        async def has_ended() -> bool:
            return held.exists() and "and there was no other" in hub.log.read_text()

        await until(has_ended, 30, "JupyterHub to call the hook, and EC2 to refuse")
        calls = len(await embedded.calls("CreateFleet"))
    finally:
        await sell(embedded, None)
        hold.unlink()

    await nothing_left(hub, embedded, "leo")
    assert len(await embedded.calls("CreateFleet")) == calls, "no other start has begun"
    async with browser(hub, "leo") as client:
        reply = await client.get("/hub/spawn/leo")
        assert "and there was no other" in reply.text

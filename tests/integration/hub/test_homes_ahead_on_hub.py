"""The home of a user who is expected is attached ahead, on a real hub with real agents: the start
makes no call for it, and its files are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.security.instances_scope import SCOPE
from ec2spawner.provisioner.store.store import Store
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser
from tests.integration.hub.pool_of_hub import places

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=40)]

ROLE = {"name": "operations", "users": ["oscar"], "scopes": [SCOPE]}
CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
]""",
    'c.EC2Spawner.warm_pool = [{"profile": "small", "running": 1, "attach_homes_ahead": 1}]',
    f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {ROLE!r}]",
    'c.JupyterHub.load_groups = {"all": {"users": ["oscar"]}}',
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), boot_seconds=1.0).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *CONFIG))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(150))


async def waiting(hub: Hub, homes_ahead: int) -> None:
    async def wait() -> bool:
        found = await places(hub)
        wanted = (1 - homes_ahead, homes_ahead)
        return found is not None and (found.waiting, found.homes_ahead) == wanted

    await until(wait, 60, f"an instance to wait, {homes_ahead} of them for a user")


async def attached_ahead(hub: Hub, embedded: Embedded, user: str) -> Mapping[str, Any]:
    """The attachment, once the hub has asked for a listing since."""
    await waiting(hub, homes_ahead=1)

    async def is_listed() -> bool:
        actions = [call["action"] for call in await embedded.control("calls")]
        since = actions[::-1].index("AttachVolume")
        return "DescribeInstances" in actions[len(actions) - since :]

    async def found() -> Mapping[str, Any] | None:
        [volume] = homes_of(embedded, user)
        attachments: Sequence[Mapping[str, Any]] = volume["Attachments"]
        return next(iter(attachments), None)

    attachment = await until(found, 30, "the home to be attached")
    await until(is_listed, 30, "a listing since")
    return attachment


async def calls_of_a_start(hub: Hub, embedded: Embedded, user: str) -> Counter[str]:
    """The calls to EC2 between the request of a server and its notebook."""
    before = len(await embedded.control("calls"))
    await hub.start_server(user)
    found = (await embedded.control("calls"))[before:]
    return Counter(call["action"] for call in found)


def homes_of(embedded: Embedded, user: str) -> Sequence[Mapping[str, Any]]:
    filters = [
        {"Name": "tag-key", "Values": ["ec2spawner:home"]},
        {"Name": "tag:ec2spawner:user", "Values": [user]},
    ]
    found: Sequence[Mapping[str, Any]] = embedded.client().describe_volumes(Filters=filters)[
        "Volumes"
    ]
    return found


async def make_it_a_habit(hub: Hub, user: str) -> None:
    """As if the user's starts of today had been in the last weeks, one in each, ten minutes later
    than now."""
    now = datetime.now(UTC)
    store = await Store.open(f"sqlite:///{hub.directory}/ec2spawner.sqlite", now=now)
    try:
        known = await store.past_leases(user, now, 10)
        assert len(known) >= 2
        for weeks, lease in enumerate(known, start=1):
            assert lease.ready_at is not None
            earlier = now + timedelta(minutes=10, weeks=-weeks) - lease.requested_at
            moved = replace(
                lease,
                requested_at=lease.requested_at + earlier,
                ready_at=lease.ready_at + earlier,
                events=(),
                segments=(),
            )
            await store.save_lease(moved)
    finally:
        await store.close()


async def two_starts(hub: Hub, embedded: Embedded, user: str) -> Counter[str]:
    """The calls to EC2 of the second."""
    await waiting(hub, homes_ahead=0)
    await hub.start_server(user)
    await hub.stop_server(user)
    await waiting(hub, homes_ahead=0)
    found = await calls_of_a_start(hub, embedded, user)
    await hub.stop_server(user)
    await waiting(hub, homes_ahead=0)
    return found


async def attached_for(hub: Hub, embedded: Embedded, user: str) -> Mapping[str, Any]:
    """The attachment of the home of a user who is expected since the hub's restart."""
    await hub.kill()
    await make_it_a_habit(hub, user)
    await hub.start()
    return await attached_ahead(hub, embedded, user)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/pool/test_homes_ahead.py::"
    "test_a_user_who_is_expected_gets_the_instance_with_the_home_on_it"
)
async def test_a_start_makes_no_call_for_a_home_that_was_attached_ahead(
    hub: Hub, embedded: Embedded
) -> None:
    usual = await two_starts(hub, embedded, "ann")
    assert usual["AttachVolume"] == 1
    attachment = await attached_for(hub, embedded, "ann")
    async with browser(hub, "ann") as visit:
        page = (await visit.get("/hub/spawn")).text
    assert "A machine waits for you until" in page
    assert 'name="afresh"' not in page, "nothing of hers is on it"
    found = await calls_of_a_start(hub, embedded, "ann")
    print("calls of a start:", dict(usual), "with the home attached ahead:", dict(found))
    assert found["AttachVolume"] == 0
    shown = await hub.model("ann")
    assert shown is not None
    assert shown["ready"]
    headers = {"Authorization": f"token {await hub.user_token('oscar')}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        servers = (await client.get("/hub/api/ec2/instances")).json()["servers"]
    of_ann = [each["instance_id"] for each in servers if each["user"] == "ann"]
    assert of_ann == [attachment["InstanceId"]]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/pool/test_homes_ahead.py::test_nobody_else_ever_gets_the_instance"
)
async def test_another_user_gets_another_instance(hub: Hub, embedded: Embedded) -> None:
    await two_starts(hub, embedded, "eva")
    attachment = await attached_for(hub, embedded, "eva")
    await hub.start_server("bob")
    [of_bob] = homes_of(embedded, "bob")
    assert of_bob["Attachments"][0]["InstanceId"] != attachment["InstanceId"]
    [volume] = homes_of(embedded, "eva")
    assert volume["Attachments"] == [attachment]
    assert (await calls_of_a_start(hub, embedded, "eva"))["AttachVolume"] == 0

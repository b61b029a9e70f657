"""The warm pool on a real hub with real agents: a start is served by an instance that waits."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.cli import parse
from ec2spawner.hub.api.pool import PoolModel
from ec2spawner.hub.security.instances_scope import SCOPE
from ec2spawner.pool.command import REFUSED, run_pool
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser, xsrf_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=30)]

PATH = "/hub/api/ec2/pool"
ROLE = {"name": "operations", "users": ["oscar"], "scopes": [SCOPE]}
CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
    {"display_name": "Other", "slug": "other", "vcpus": 4, "memory_gib": 8},
    {"display_name": "Still", "slug": "still", "vcpus": 8, "memory_gib": 16, "market": "on-demand"},
]""",
    'c.EC2Spawner.warm_pool = [{"profile": "small", "running": 2}]',
    'c.EC2Spawner.time_zone = "Asia/Kolkata"',
    f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {ROLE!r}]",
    'c.JupyterHub.load_groups = {"all": {"users": ["oscar", "eva"]}}',
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), boot_seconds=2.0).start()
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


async def send(
    hub: Hub, method: str, path: str = PATH, body: Any = None, user: str = "oscar"
) -> httpx.Response:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        return await client.request(method, path, json=body)


def asked(hub: Hub, *words: str) -> Namespace:
    """The command line of `ec2spawner pool`."""
    arguments, _ = parse(["pool", *words, "--hub", hub.url])
    return arguments


async def pool(hub: Hub) -> PoolModel:
    reply = await send(hub, "GET")
    assert reply.status_code == 200, reply.text
    return PoolModel.model_validate_json(reply.content)


async def waiting(hub: Hub, number: int, profile: str = "small") -> None:
    async def wait() -> bool:
        found = await pool(hub)
        return any(x.profile == profile and x.waiting == number for x in found.places)

    await until(wait, 60, f"{number} instances to wait for {profile}")


async def running(embedded: Embedded) -> set[str]:
    found = await embedded.instances()
    return {each["instance_id"] for each in found if each["state"] in ("pending", "running")}


async def only_two(embedded: Embedded) -> None:
    async def two() -> bool:
        return len(await running(embedded)) == 2

    await until(two, 60, "the third instance to end")


async def test_a_start_gets_a_waiting_instance_and_the_pool_fills_again(
    hub: Hub, embedded: Embedded
) -> None:
    await waiting(hub, 2)
    launches = len(await embedded.calls("CreateFleet"))
    before = await running(embedded)
    await hub.add_user("ann")
    profiles = await send(hub, "GET", "/hub/api/ec2/profiles", user="ann")
    ready = {each["slug"]: each["ready_at_once"] for each in profiles.json()["profiles"]}
    assert ready == {"small": True, "other": False, "still": False}
    await hub.request_server("ann")
    model = await hub.wait_ready("ann")
    assert model is not None
    reply = await send(hub, "GET", "/hub/api/ec2/instances")
    [server] = reply.json()["servers"]
    assert server["instance_id"] in before, "nothing was bought for it"
    await waiting(hub, 2)
    assert len(await embedded.calls("CreateFleet")) == launches + 1, "it fills the place"
    shown = (await send(hub, "GET", "/hub/api/ec2/instances")).json()["unassigned"]
    assert [each["status"] for each in shown] == ["pool", "pool"]
    await hub.stop_server("ann")


async def test_the_pool_with_its_reasons_and_costs(hub: Hub) -> None:
    await waiting(hub, 2)
    [places] = (await pool(hub)).places
    assert (places.profile, places.profile_name, places.target) == ("small", "Small", 2)
    assert places.why == ("The configuration asks for 2.",)
    assert places.usd_per_hour > 0
    assert {each.waiting_since is not None for each in places.instances} == {True}


async def test_who_may_not(hub: Hub) -> None:
    for method in ("GET", "PUT", "DELETE"):
        path = PATH if method == "GET" else f"{PATH}/small"
        assert (await send(hub, method, path, {"running": 1}, user="eva")).status_code == 403
    async with browser(hub, "oscar") as client:
        refused = await client.put(f"{PATH}/small", json={"running": 1})
        assert refused.status_code == 403, "no XSRF token"
        token = await xsrf_of(client, "/hub/")
        headers = {"X-XSRFToken": token}
        reply = await client.put(f"{PATH}/small", json={"running": 2}, headers=headers)
        assert reply.status_code == 200, reply.text
    assert (await send(hub, "DELETE", f"{PATH}/small")).status_code == 204


async def test_what_is_refused(hub: Hub) -> None:
    for body in (
        {"running": -1},
        {"running": 1001},
        {"running": "2"},
        {"running": 1, "until": "2020-01-01T00:00:00Z"},
        {"running": 1, "until": "2999-01-01T00:00:00Z"},
        {"running": 1, "until": "18:00"},
        {"running": 1, "more": 1},
    ):
        assert (await send(hub, "PUT", f"{PATH}/small", body)).status_code == 400, body
    unknown = await send(hub, "PUT", f"{PATH}/none", {"running": 1})
    assert unknown.status_code == 404
    assert "small, other" in unknown.json()["message"]
    assert (await send(hub, "DELETE", f"{PATH}/small")).status_code == 404


@pytest.mark.nightly(
    guard="tests/unit/provisioner/pool/test_pool_costs.py::"
    "test_a_number_set_by_hand_holds_until_its_end"
)
async def test_what_an_admin_sets_holds_at_once_and_after_a_restart(
    hub: Hub, embedded: Embedded
) -> None:
    given = asked(hub, "set", "other", "1", "--json")
    token = {"JUPYTERHUB_API_TOKEN": await hub.user_token("oscar")}
    assert await asyncio.to_thread(run_pool, given, token) == 0
    await waiting(hub, 1, "other")
    before = await running(embedded)
    await hub.kill()
    await hub.start()
    await waiting(hub, 1, "other")
    await waiting(hub, 2)
    assert await running(embedded) == before, "the restart has kept them"
    [places] = [each for each in (await pool(hub)).places if each.profile == "other"]
    assert places.by_hand is not None
    assert places.by_hand.by == "oscar"
    assert places.why[0].startswith("An admin has set 1 until ")
    assert await asyncio.to_thread(run_pool, asked(hub, "clear", "other"), token) == 0
    await only_two(embedded)


async def test_the_command_shows_the_pool_and_clears_what_was_set(
    hub: Hub, embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    token = {"JUPYTERHUB_API_TOKEN": await hub.user_token("oscar")}
    given = asked(hub, "set", "other", "1", "--until=18:00")
    assert await asyncio.to_thread(run_pool, given, token) == 0
    await waiting(hub, 1, "other")
    [places] = [each for each in (await pool(hub)).places if each.profile == "other"]
    assert ", 18:00 " in places.why[0], "on the hub's clock"
    capsys.readouterr()
    shown = asked(hub)
    assert await asyncio.to_thread(run_pool, shown, token) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "other" in said
    assert "Set by oscar." in said
    cleared = asked(hub, "clear", "other", "--json")
    assert await asyncio.to_thread(run_pool, cleared, token) == 0
    assert json.loads(capsys.readouterr().out)["usd_per_hour"] > 0
    await only_two(embedded)
    assert await asyncio.to_thread(run_pool, cleared, token) == REFUSED
    assert "nothing is set by hand" in capsys.readouterr().err


async def test_a_start_takes_an_instance_that_waits_stopped(hub: Hub, embedded: Embedded) -> None:
    await waiting(hub, 2)
    await only_two(embedded)
    of_pool = await running(embedded)
    path = f"{PATH}/still"
    assert (await send(hub, "PUT", path, {"running": 0, "stopped": 1})).status_code == 200

    async def is_stopped() -> str | None:
        found = await embedded.instances()
        at_rest = [each["instance_id"] for each in found if each["state"] == "stopped"]
        known = [x.instance_id for each in (await pool(hub)).places for x in each.stopped_instances]
        return at_rest[0] if at_rest and at_rest == known else None

    at_rest = await until(is_stopped, 60, "an instance to wait stopped")
    assert await running(embedded) == of_pool
    await hub.start_server("cid", options={"profile": "still"})
    assert len(await embedded.calls("StartInstances")) == 1
    assert at_rest in await running(embedded)
    assert (await send(hub, "DELETE", path)).status_code == 204
    await hub.stop_server("cid")

    async def nothing_more() -> bool:
        found = await embedded.instances()
        return {each["instance_id"] for each in found} == of_pool

    await until(nothing_more, 60, "all instances but those of the pool to end")

"""Several servers start from one home, at the same time: each named server from a copy of it.

Each home is deleted with its server or user.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROFILES: list[dict[str, Any]] = [
    {"display_name": "No GPU", "slug": "cpu", "instance_types": ["m7i.xlarge"], "default": True}
]
HOME = {"size_gib": 20, "named_servers": "copy", "delete_forever": True}
BEGIN = "They begin as a copy of the files of your default server, as they are when you start"
BEGAN = "They began as a copy of the files of your default server, as of "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    config = demo_config(
        directory,
        f"c.EC2Spawner.profile_list = {PROFILES!r}",
        f"c.EC2Spawner.home = {HOME!r}",
        "c.JupyterHub.allow_named_servers = True",
    )
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


def volumes(embedded: Embedded) -> set[str]:
    return {each.name for each in Path(embedded.data_dir / "ec2" / "volumes").iterdir()}


async def write(hub: Hub, user: str, server: str, text: str) -> None:
    body = {"type": "file", "format": "text", "content": text}
    await contents(hub, user, server, "PUT", body)


async def read(hub: Hub, user: str, server: str) -> str:
    return str((await contents(hub, user, server, "GET"))["content"])


async def contents(
    hub: Hub, user: str, server: str, method: str, body: dict[str, Any] | None = None
) -> Any:
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=30
    ) as client:
        path = f"/user/{user}/{server}/api/contents/thesis.txt".replace("//", "/")
        reply = await client.request(method, path, json=body)
    assert reply.is_success, reply.text
    return reply.json()


def wakes(hub: Hub, user: str) -> dict[str, str]:
    """What the start of each server of a user wakes, by the server's name."""
    store = hub.directory / "ec2spawner.sqlite"
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        rows = database.execute(
            "SELECT server_name, sleep FROM lease WHERE user_name = ?", (user,)
        ).fetchall()
    return {server: json.loads(sleep)["wake"] for server, sleep in rows}


async def test_servers_start_from_one_home_and_write_to_their_own(
    hub: Hub, embedded: Embedded
) -> None:
    before, known = volumes(embedded), len(await embedded.control("calls"))
    await hub.start_server("ada")
    await write(hub, "ada", "", "chapter 1")
    async with browser(hub, "ada") as page:
        assert BEGIN in html.unescape((await page.get("/hub/spawn/ada/gpu")).text)

    # EC2 makes one copy of a volume after the other.
    await asyncio.gather(*(hub.start_server("ada", name) for name in ("gpu", "big")))
    assert len(volumes(embedded) - before) == 3
    assert await read(hub, "ada", "gpu") == await read(hub, "ada", "big") == "chapter 1"
    await write(hub, "ada", "gpu", "chapter 2")
    assert await read(hub, "ada", "") == await read(hub, "ada", "big") == "chapter 1"
    actions = [call["action"] for call in (await embedded.control("calls"))[known:]]
    assert "CreateSnapshot" not in actions

    assert wakes(hub, "ada") == {"": "sleeping", "gpu": "no", "big": "no"}, (
        "no session is woken twice"
    )

    await hub.stop_server("ada", "gpu")
    async with browser(hub, "ada") as page:
        assert BEGAN in html.unescape((await page.get("/hub/spawn/ada/gpu")).text)
    await hub.start_server("ada", "gpu")
    assert await read(hub, "ada", "gpu") == "chapter 2"
    assert len(volumes(embedded) - before) == 3


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_server_copies.py::"
    "test_its_first_start_is_asked_for_in_the_zone_of_the_source_and_as_large"
)
async def test_the_spawn_page_offers_the_zone_of_the_source(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("eve")
    full = {"market": "*", "instance_type": "*", "zone": (await embedded.instances())[0]["zone"]}
    await embedded.control("capacity", full | {"available": 0})
    await hub.start_server("bob")
    await embedded.control("capacity", full | {"available": None})
    zone = (await embedded.instances())[-1]["zone"]
    assert zone != full["zone"]
    async with browser(hub, "bob") as page:
        shown = html.unescape((await page.get("/hub/spawn/bob/gpu")).text)
    assert set(re.findall(r"us-east-1[a-f]", shown)) == {zone}


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_server_copies.py::test_it_is_deleted_like_any_home"
)
async def test_the_copy_is_deleted_with_its_server(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("dan")
    before = volumes(embedded)
    await hub.start_server("dan", "short")
    [copy] = volumes(embedded) - before
    path = hub.server_path("dan", "short")
    reply = await hub.api.request("DELETE", path, json={"remove": True})
    assert reply.status_code in {202, 204}, reply.text
    await until(lambda: _is(copy not in volumes(embedded)), 90, "the copy to be deleted")
    assert volumes(embedded) == before


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_homes.py::"
    "test_the_home_of_a_deleted_user_is_deleted_only_where_the_admin_says_so"
)
async def test_a_home_is_deleted_with_its_user(hub: Hub, embedded: Embedded) -> None:
    before = volumes(embedded)
    await hub.start_server("cyd")
    [own] = volumes(embedded) - before
    await hub.stop_server("cyd")
    assert own in volumes(embedded)
    reply = await hub.api.delete("/users/cyd")
    assert reply.status_code == 204, reply.text
    await until(lambda: _is(own not in volumes(embedded)), 90, "the volume to be deleted")
    assert volumes(embedded) == before


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_server_copies.py::"
    "test_an_empty_home_instead_is_empty_and_in_any_zone"
)
async def test_an_empty_home_is_given_to_who_chooses_it(hub: Hub) -> None:
    await hub.start_server("fay")
    await write(hub, "fay", "", "chapter 1")
    await hub.start_server("fay", "gpu")
    async with browser(hub, "fay") as page:
        assert 'name="replace_home" value="empty"' in (await page.get("/hub/spawn/fay/blank")).text
        assert 'name="replace_home"' not in (await page.get("/hub/spawn/fay/gpu")).text
    await hub.start_server("fay", "blank", options={"replace_home": "empty"})
    headers = {"Authorization": f"token {await hub.user_token('fay')}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=30
    ) as client:
        reply = await client.get("/user/fay/blank/api/contents/thesis.txt")
    assert reply.status_code == 404


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_server_copies.py::"
    "test_a_snapshot_is_made_where_copies_are_refused_and_goes_afterwards"
)
async def test_a_denied_copy_is_made_by_a_snapshot(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("gil")
    await write(hub, "gil", "", "chapter 1")
    denied = {"action": "CopyVolumes", "kind": "UnauthorizedOperation", "times": 1}
    await embedded.control("faults", denied)
    await hub.start_server("gil", "slow")
    assert await read(hub, "gil", "slow") == "chapter 1"
    snapshots = embedded.data_dir / "ec2" / "snapshots"
    await until(lambda: _is(not any(snapshots.iterdir())), 60, "the snapshot to be deleted")
    await hub.kill()  # a hub that was refused a copy asks for none for a while
    await hub.start()


async def _is(value: bool) -> bool:
    return value

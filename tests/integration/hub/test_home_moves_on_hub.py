"""A user's files move from a sold-out zone to another, and a size out of bounds is refused."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
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
HOME = {"size_gib": 20, "user_may_choose": {"min": 10, "max": 100}}


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
    )
    running = Hub(directory, embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


def folders(embedded: Embedded, kind: str) -> dict[str, Path]:
    """Volumes or snapshots of homes, by id, with the folder that holds the files of each."""
    found = embedded.data_dir / "ec2" / kind
    return {each.name: each for each in found.iterdir()} if found.exists() else {}


async def contents(hub: Hub, user: str, method: str, body: dict[str, Any] | None = None) -> Any:
    """The notebook server's own answer about thesis.txt."""
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=30
    ) as client:
        reply = await client.request(method, f"/user/{user}/api/contents/thesis.txt", json=body)
    assert reply.is_success, reply.text
    return reply.json()


async def test_files_move_when_their_zone_is_sold_out(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("ada", options={"home_gib": 12})
    await contents(hub, "ada", "PUT", {"type": "file", "format": "text", "content": "chapter 1"})
    [machine] = await embedded.instances()
    await hub.stop_server("ada")
    [before] = folders(embedded, "volumes")
    zone = machine["zone"]

    async def is_given_back() -> bool:
        return all(i["state"] == "terminated" for i in await embedded.control("instances"))

    await until(is_given_back, 30, "the machine to end, whose place would be free again")
    sold = {"market": "*", "instance_type": "*", "zone": zone, "available": 0}
    await embedded.control("capacity", sold)

    refused = await hub.request_server("ada")
    assert refused.status_code == 503, refused.text
    message = refused.json()["message"]
    assert f"Your files (12 GiB in {zone}) can be copied to us-east-1" in message
    assert "Estimates: " in message
    assert list(folders(embedded, "volumes")) == [before], "nothing moves before it is asked for"

    async with browser(hub, "ada") as page:
        shown = await page.get("/hub/spawn-pending/ada")
        found = re.findall(r'ec2-alternative" href="([^"]+)">(Move my files[^<]+)</a>', shown.text)
        [(url, words)] = found
        assert "and start No GPU" in words
        forged = re.sub("opt-signed=[^&]+", "opt-signed=1-0", html.unescape(url))
        assert "Nothing has started yet" in (await page.get(forged)).text
        assert list(folders(embedded, "volumes")) == [before]
        started = await page.get(html.unescape(url))
        assert started.status_code == 200, started.text

    model = await hub.wait_ready("ada")
    assert "move_home" not in model["user_options"], "no later start moves them again"
    [machine] = await embedded.instances()
    assert machine["zone"] in words
    assert (await contents(hub, "ada", "GET"))["content"] == "chapter 1"

    async def only_the_new_one() -> bool:
        volumes, snapshots = folders(embedded, "volumes"), folders(embedded, "snapshots")
        return len(volumes) == 1 and before not in volumes and not snapshots

    await until(only_the_new_one, 30, "the old volume and the snapshot to be deleted")
    await embedded.control("capacity", sold | {"available": None})
    await hub.stop_server("ada")


async def test_a_size_out_of_bounds_is_refused_with_a_reason(hub: Hub) -> None:
    refused = await hub.request_server("eve", options={"home_gib": 5000})
    assert refused.status_code == 400
    said = "home_gib: 5000 is out of bounds. Send a whole number of GiB from 10 to 100"
    assert said in refused.json()["message"]

"""When a server is stopped from the hub, its open pages can still save through the proxy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from ec2spawner.notebook.status.notice_events import SCHEMA_ID
from tests.harness import Hub, Notebook
from tests.jupyter_by_hand import Jupyter


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


async def test_an_open_page_saves_before_its_route_is_removed(hub: Hub) -> None:
    await hub.start_server("ann")
    async with Jupyter(f"{hub.url}/user/ann/", await hub.user_token("ann")) as page:
        events = await page.http.ws_connect(f"{page.base_url}api/events/subscribe")
        stopping = asyncio.create_task(hub.stop_server("ann"))
        await until_announced(events)
        document = {"type": "file", "format": "text", "content": "typed just now"}
        assert (await page.call("PUT", "api/contents/notes.txt", json=document))[0] == 201
        assert (await page.call("POST", "ec2spawner/api/saved", json={"page": "a page"}))[0] == 200
        await stopping
        await events.close()
    await hub.start_server("ann")
    async with Jupyter(f"{hub.url}/user/ann/", await hub.user_token("ann")) as page:
        status, notes = await page.call("GET", "api/contents/notes.txt")
    assert (status, notes["content"]) == (200, "typed just now")


async def until_announced(events: aiohttp.ClientWebSocketResponse) -> None:
    async with asyncio.timeout(30):
        while True:
            event: dict[str, Any] = json.loads(await events.receive_str())
            if event["schema_id"] == SCHEMA_ID and event["notices"]:
                assert [each["kind"] for each in event["notices"]] == ["stopping"]
                return

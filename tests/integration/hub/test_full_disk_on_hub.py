"""A hub whose disk is full, with its store and JupyterHub's database: it refuses starts and says
why, keeps what runs and who is logged in, and recovers by itself."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.harness import Embedded, Hub
from tests.integration.hub.agent_by_hand import browser
from tests.small_disk import mounted, use_up_bytes

pytestmark = pytest.mark.slow(seconds=15)

EACH_REQUEST = "--JupyterHub.activity_resolution=0"
"""JupyterHub records activity at each request, and not at most every 30 seconds."""


async def test_a_hub_whose_disk_is_full(embedded: Embedded, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    with mounted(tmp_path / "hub", mebibytes=64) as disk:
        hub = Hub(disk, embedded, EACH_REQUEST)
        try:
            await hub.start()
            await hub.add_user("bob")
            await hub.start_server("ada")
            token = await hub.user_token("ada")
            running = len(await embedded.instances())
            async with browser(hub, "ada") as page:
                use_up_bytes(disk)
                for _ in range(2):
                    assert (await as_user(hub, token, "/hub/api/user")).json()["name"] == "ada"
                    assert (await as_user(hub, token, "/user/ada/api/status")).is_success
                    assert (await page.get("/hub/home")).url.path == "/hub/home"
                    refused = await start(hub, "bob")
                    assert refused.status_code == 503
                    assert "cannot write to its database" in refused.json()["message"]
            assert (await server_of(hub, "ada"))["ready"]
            assert len(await embedded.instances()) == running
            before = await last_activity(hub)
            (disk / "big").unlink()
            assert (await start(hub, "bob")).is_success
            await hub.wait_ready("bob")
            assert (await server_of(hub, "ada"))["ready"]
            assert (await as_user(hub, token, "/hub/api/user")).is_success
            assert await last_activity(hub) > before
            said = hub.log.read_text()
            assert said.count("activity is not recorded") == 1
            assert said.count("activity is recorded again") == 1
        finally:
            await hub.stop()
            print(hub.tail(200))


async def as_user(hub: Hub, token: str, path: str) -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(base_url=hub.url, timeout=30) as client:
        return await client.get(path, headers=headers)


async def last_activity(hub: Hub) -> str:
    activity: str = (await hub.api.get("/users/ada")).json()["last_activity"]
    return activity


async def start(hub: Hub, user: str) -> httpx.Response:
    return await hub.api.post(hub.server_path(user), json={})


async def server_of(hub: Hub, user: str) -> dict[str, object]:
    model = await hub.model(user)
    assert model is not None
    return model

"""A hub whose disk is full, with its store and JupyterHub's database: it refuses starts and says
why, keeps what runs, and recovers by itself."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.harness import Embedded, Hub
from tests.small_disk import mounted, use_up_bytes

pytestmark = pytest.mark.slow(seconds=15)


async def test_a_hub_whose_disk_is_full(embedded: Embedded, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    with mounted(tmp_path / "hub", mebibytes=64) as disk:
        hub = Hub(disk, embedded)
        try:
            await hub.start()
            await hub.add_user("bob")
            await hub.start_server("ada")
            running = len(await embedded.instances())
            use_up_bytes(disk)
            for _ in range(2):
                refused = await start(hub, "bob")
                assert refused.status_code == 503
                assert "cannot write to its database" in refused.json()["message"]
            assert (await server_of(hub, "ada"))["ready"]
            assert len(await embedded.instances()) == running
            (disk / "big").unlink()
            assert (await start(hub, "bob")).is_success
            await hub.wait_ready("bob")
            assert (await server_of(hub, "ada"))["ready"]
        finally:
            await hub.stop()
            print(hub.tail(200))


async def start(hub: Hub, user: str) -> httpx.Response:
    return await hub.api.post(hub.server_path(user), json={})


async def server_of(hub: Hub, user: str) -> dict[str, object]:
    model = await hub.model(user)
    assert model is not None
    return model

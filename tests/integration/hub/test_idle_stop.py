"""Nothing works: the server is stopped, JupyterHub knows at once, and the next page says why."""

from __future__ import annotations

import pytest
from harness import Embedded, Hub, until


@pytest.mark.parametrize(
    "hub", [("--EC2Spawner.idle={'server': '6s', 'warn': '3s', 'kernel': '1h'}",)], indirect=True
)
async def test_idle_server_is_stopped(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("ann")
    await hub.wait_gone("ann", timeout=40)

    async def nothing() -> bool:
        return not await embedded.instances()

    await until(nothing, 10, "the instance to be gone")
    tokens = (await hub.api.get("/users/ann/tokens")).json()["api_tokens"]
    assert not [t for t in tokens if t["note"].startswith("Server at")]

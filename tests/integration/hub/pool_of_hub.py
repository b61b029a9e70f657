"""How the warm pool of a hub stands, as an admin reads it."""

from __future__ import annotations

import httpx

from ec2spawner.hub.api.pool import PlacesModel, PoolModel
from tests.harness import Hub


async def places(hub: Hub) -> PlacesModel | None:
    """Those of the first group; None until the hub's first pass has set targets. `oscar` must have
    the scope."""
    headers = {"Authorization": f"token {await hub.user_token('oscar')}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:
        reply = await client.get("/hub/api/ec2/pool")
    assert reply.status_code == 200, reply.text
    return next(iter(PoolModel.model_validate_json(reply.content).places), None)

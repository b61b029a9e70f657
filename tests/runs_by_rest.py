"""Runs of a user of a hub, through REST."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import httpx

from tests.harness import Hub, until


class Runs:
    """One user's runs, through REST."""

    def __init__(self, hub: Hub, token: str) -> None:
        self.api = httpx.AsyncClient(
            base_url=f"{hub.url}/hub/api/ec2",
            headers={"Authorization": f"token {token}"},
            timeout=30,
        )

    async def submit(self, document: str, path: str = "work/train.ipynb", **fields: Any) -> int:
        """Number of the first run."""
        packed = base64.b64encode(zlib.compress(document.encode())).decode()
        body = {"path": path, "document": packed, "profile": "cpu", **fields}
        reply = await self.api.post("/runs", json=body)
        assert reply.status_code == 201, reply.text
        return int(reply.json()["runs"][0]["number"])

    async def one(self, number: int) -> dict[str, Any]:
        reply = await self.api.get(f"/runs/{number}")
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()["runs"][0]
        return found

    async def until(self, number: int, *states: str, seconds: float = 120) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            run = await self.one(number)
            return run if run["state"] in states else None

        return await until(reached, seconds, f"run {number} to be {' or '.join(states)}")

    async def result(self, number: int) -> str:
        reply = await self.api.get(f"/runs/{number}/result")
        assert reply.status_code == 200, reply.text
        return reply.text


async def runs_of(hub: Hub, user: str) -> Runs:
    await hub.add_user(user)
    return Runs(hub, await hub.user_token(user))

"""Stopping every server of the demo's hub, as its users would, before everything ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp

STOP_TIMEOUT = 20.0
"""Seconds for all servers together: each saves its home, which takes one or two on an idle laptop.
What has not stopped by then ends with its instance."""

CALL_TIMEOUT = 15.0
"""Seconds for one call: JupyterHub answers a stop that takes longer after ten."""

PAUSE = 0.2

PAGE = 200
"""Users in one answer, JupyterHub's maximum. A demo has fewer."""


async def stop_servers(hub_url: str, token: str) -> None:
    """Stop what runs or starts; returns when it has ended, after `STOP_TIMEOUT` at the latest.

    The instances end with the demo. A hub that still knew servers on them would be busy at its next
    start with finding out that they are gone.
    """
    with suppress(TimeoutError, aiohttp.ClientError):
        async with (
            asyncio.timeout(STOP_TIMEOUT),
            aiohttp.ClientSession(
                headers={"Authorization": f"token {token}"},
                timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT),
                raise_for_status=True,
            ) as http,
        ):
            while servers := await _active(http, f"{hub_url}/hub/api/users"):
                await asyncio.gather(*(_stop(http, url) for url in servers))
                await asyncio.sleep(PAUSE)


async def _active(http: aiohttp.ClientSession, users_url: str) -> list[str]:
    """The API's URL of each server that runs, starts or stops."""
    async with http.get(users_url, params={"state": "active", "limit": PAGE}) as answer:
        users: list[dict[str, Any]] = await answer.json()
    return [
        f"{users_url}/{quote(user['name'], safe='')}/servers/{quote(name, safe='')}"
        for user in users
        for name in user["servers"]
    ]


async def _stop(http: aiohttp.ClientSession, url: str) -> None:
    # Refused where it has just stopped by itself, or is about to: the next list says so.
    with suppress(aiohttp.ClientResponseError):
        async with http.delete(url):
            pass

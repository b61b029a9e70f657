"""Waits until a hub that was started on this machine is ready for its users' starts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import aiohttp

REQUEST_TIMEOUT: Final = 3.0
"""Seconds for one answer."""

PAUSE: Final = 0.1
"""Seconds between two requests."""


async def until_ready(process: asyncio.subprocess.Process, hub_url: str, timeout: float) -> bool:
    """Wait until the hub starts servers; False if its process ends before.

    `hub_url` has no slash at its end, `timeout` is in seconds. Raises `TimeoutError`.
    """
    # Not tornado's client: that prints what a fetch meets later that Ctrl-C has cancelled.
    of_request = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
    async with asyncio.timeout(timeout), aiohttp.ClientSession(timeout=of_request) as http:
        while process.returncode is None:
            with suppress(aiohttp.ClientError, TimeoutError):
                if await _starts_servers(http, hub_url):
                    return True
            await asyncio.sleep(PAUSE)
    return False


async def _starts_servers(http: aiohttp.ClientSession, hub_url: str) -> bool:
    """Whether the hub serves, and EC2 has answered it: until then it refuses to start servers."""
    async with http.get(f"{hub_url}/hub/health") as health:
        if health.status != HTTPStatus.OK:
            return False
    # As an agent without a token: refused with 401, and with 503 before EC2 has answered.
    async with http.post(f"{hub_url}/hub/api/ec2/leases/none/beat") as answer:
        return answer.status != HTTPStatus.SERVICE_UNAVAILABLE

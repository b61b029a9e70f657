"""Whether a hub of this machine is ready for its users' starts."""

from __future__ import annotations

from http import HTTPStatus

import aiohttp


async def starts_servers(http: aiohttp.ClientSession, hub_url: str) -> bool:
    """Whether the hub serves, and EC2 has answered it: until then it refuses to start servers.

    Raises what `http` raises. `hub_url` has no slash at its end.
    """
    async with http.get(f"{hub_url}/hub/health") as health:
        if health.status != HTTPStatus.OK:
            return False
    # As an agent without a token: refused with 401, and with 503 before EC2 has answered.
    async with http.post(f"{hub_url}/hub/api/ec2/leases/none/beat") as answer:
        return answer.status != HTTPStatus.SERVICE_UNAVAILABLE

"""A client of the instance metadata service (IMDSv2)."""

from __future__ import annotations

import aiohttp

TOKEN_SECONDS = 21600
"""Maximum lifetime of an IMDSv2 token. A refused token is replaced."""

TIMEOUT = aiohttp.ClientTimeout(total=5)

MAX_RESPONSE_BYTES = 16 * 1024


class MetadataError(Exception):
    """The metadata service did not answer, or gave an invalid response."""


class Metadata:
    """The metadata of this instance, below `/latest/`."""

    def __init__(self, endpoint: str, http: aiohttp.ClientSession) -> None:
        self._root = f"{endpoint}/latest"
        self._http = http
        self._token = ""

    async def read(self, path: str) -> str:
        """The text at `path`. Raises `MetadataError`, also on 404."""
        text = await self.find(path)
        if text is None:
            raise MetadataError(f"GET {self._root}/{path} answered 404")
        return text

    async def find(self, path: str) -> str | None:
        """The text at `path`, or None on 404. Raises `MetadataError`."""
        had_token = bool(self._token)
        status, text = await self._get(path)
        if status == 401 and had_token:
            # The token has expired: a lease may last longer.
            self._token = ""
            status, text = await self._get(path)
        if status == 404:
            return None
        if status != 200:
            raise MetadataError(f"GET {self._root}/{path} answered {status}")
        return text

    async def _get(self, path: str) -> tuple[int, str]:
        if not self._token:
            self._token = await self._new_token()
        return await self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})

    async def _new_token(self) -> str:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        status, token = await self._ask("PUT", "api/token", ttl)
        if status != 200:
            raise MetadataError(f"PUT {self._root}/api/token answered {status}")
        return token.strip()

    async def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        url = f"{self._root}/{path}"
        try:
            async with self._http.request(method, url, headers=headers, timeout=TIMEOUT) as answer:
                body = bytearray()
                # Read to the end: a single `read` returns only what has arrived so far.
                async for part in answer.content.iter_any():
                    body += part
                    if len(body) > MAX_RESPONSE_BYTES:
                        raise MetadataError(f"{method} {url}: more than {MAX_RESPONSE_BYTES} bytes")
                return answer.status, body.decode()
        except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
            raise MetadataError(f"{method} {url}: {error!r}") from error

"""A minimal HTTP/1.1 client over asyncio streams, for thousands of agents in one process.

A real agent uses aiohttp, which costs some ten times the CPU of this for a small call. One
connection carries one request at a time and is kept open between them, as aiohttp does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_RESPONSE_BYTES = 16 * 1024 * 1024


class NoResponseError(Exception):
    """The connection ended, or no complete response came in time."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response. Names of `headers` are in lower case; of a repeated one the last."""

    status: int
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; an empty one is an empty object."""
        return json.loads(self.body or b"{}")


class Connection:
    """Requests to one address, one after the other."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float = 60.0,
    ) -> Response:
        """Send and read the response. Raises `NoResponseError`.

        A kept connection that the server has closed meanwhile is replaced once.
        """
        try:
            async with asyncio.timeout(timeout):
                was_open = self._streams is not None
                try:
                    return await self._exchange(method, path, headers or {}, body)
                except (OSError, EOFError, ValueError):
                    self.close()
                    if not was_open:
                        raise
                return await self._exchange(method, path, headers or {}, body)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.close()
            raise NoResponseError(f"{method} {path}: {error!r}") from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def post(
        self, path: str, message: Any, *, token: str = "", timeout: float = 60.0
    ) -> Response:
        """POST a value as JSON, with a bearer token if there is one. Raises `NoResponseError`."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps(message).encode()
        return await self.request("POST", path, headers=headers, body=body, timeout=timeout)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
            "\r\n",
        ]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()
        response = await _read_response(reader)
        if response.headers.get("connection", "").lower() == "close":
            self.close()
        return response


async def _read_response(reader: asyncio.StreamReader) -> Response:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *lines = head.rstrip("\r\n").split("\r\n")
    headers: dict[str, str] = {}
    cookies: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
        if name.lower() == "set-cookie":
            cookie, _, content = value.strip().partition(";")[0].partition("=")
            cookies[cookie] = content
    status = int(status_line.split(" ", 2)[1])
    return Response(status, headers, cookies, await _read_body(reader, status, headers))


async def _read_body(
    reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]
) -> bytes:
    if status in {204, 304}:
        return b""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", "0"))
        if length > MAX_RESPONSE_BYTES:
            raise ValueError(f"a response of {length} bytes")
        return await reader.readexactly(length)
    chunks = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)

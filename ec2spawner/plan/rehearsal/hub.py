"""The calls of a rehearsal at the hub, with an admin's token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from ...core.text.untrusted import visible
from .users import PREFIX

CALL_TIMEOUT: Final = 60.0
"""Seconds for one call; JupyterHub lets the caller of a slow start or stop go after ten."""

MAX_BYTES: Final = 16 << 20
"""Of one answer: a thousand servers are 400 kB."""

MAX_MESSAGE: Final = 300
"""Characters of what the hub says of a failure."""

PAGE: Final = 200
"""Users in one answer, JupyterHub's maximum."""

PAUSE: Final = 1.0
"""Seconds before a call is repeated that says nothing of when."""

MAX_PAUSE: Final = 30.0
"""The same where the hub says when."""


class HubFailed(Exception):
    """The hub refused, or did not answer; the message says which, for people."""


class StartFailed(Exception):
    """A server did not start; the message is what its user would read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one call."""

    status: int
    body: Any
    """Of JSON; None for anything else."""
    retry_after: float

    @property
    def message(self) -> str:
        """What the hub says of a failure, in one line."""
        said = self.body.get("message", "") if isinstance(self.body, dict) else ""
        words = visible(" ".join(str(said).split())[:MAX_MESSAGE])
        return f"{words} (HTTP {self.status})" if words else f"HTTP {self.status} without a reason"


class Hub:
    """The API of one hub."""

    def __init__(self, api: str, http: aiohttp.ClientSession) -> None:
        """`api` is the address of JupyterHub's API with a slash at its end; `http` sends the
        token."""
        self._api = api
        self._http = http

    # --- users ---

    async def users(self) -> list[str]:
        """All whose name has the prefix of a rehearsal. Raises `HubFailed`."""
        found: list[str] = []
        while True:
            query = f"users?name_filter={PREFIX}&limit={PAGE}&offset={len(found)}"
            page = (await self._require("GET", query, HTTPStatus.OK)).body
            found += [str(each["name"]) for each in page]
            if len(page) < PAGE:
                return [name for name in found if name.startswith(PREFIX)]

    async def create(self, names: Sequence[str]) -> None:
        """Create users. Raises `HubFailed`."""
        await self._require("POST", "users", HTTPStatus.CREATED, body={"usernames": list(names)})

    async def delete(self, name: str) -> bool:
        """Delete a user, whose home the hub deletes; whether it is gone. A server that is still
        stopping comes first. Raises `HubFailed` without an answer."""
        answer = await self._call("DELETE", _user(name))
        return answer.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND)

    # --- servers ---

    async def start(self, name: str, options: Mapping[str, Any]) -> None:
        """Start the user's server, and return when it is ready. Raises `StartFailed`.

        A hub that has too many starts in progress says when to come again, which a person obeys,
        too.
        """
        try:
            while True:
                answer = await self._call("POST", f"{_user(name)}/server", options)
                if answer.status == HTTPStatus.CREATED:
                    return
                if answer.status == HTTPStatus.ACCEPTED:
                    await self._follow(name)
                    return
                if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise StartFailed(answer.message)
                await asyncio.sleep(min(answer.retry_after, MAX_PAUSE))
        except HubFailed as error:
            raise StartFailed(str(error)) from error

    async def _follow(self, name: str) -> None:
        """Read the progress of a start to its end, as the page that waits for it; again where the
        connection breaks."""
        url = f"{self._api}{_user(name)}/server/progress"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_TIMEOUT, sock_read=60)
        while True:
            try:
                async with self._http.get(url, timeout=timeout, allow_redirects=False) as stream:
                    if stream.status != HTTPStatus.OK:
                        raise StartFailed((await _answer(stream)).message)
                    if await _is_ready(stream.content):
                        return
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                pass
            await asyncio.sleep(PAUSE)

    async def stop(self, name: str) -> None:
        """Begin to stop the user's server, or its start. Raises `HubFailed`."""
        gone = (HTTPStatus.NO_CONTENT, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND)
        await self._require("DELETE", f"{_user(name)}/server", *gone)

    async def instances(self) -> Mapping[str, Any]:
        """What runs at the hub now: `GET ec2/instances`. Raises `HubFailed`."""
        found: Mapping[str, Any] = (await self._require("GET", "ec2/instances", HTTPStatus.OK)).body
        return found

    # --- calls ---

    async def _require(
        self,
        method: str,
        path: str,
        *statuses: int,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer with one of these statuses. Raises `HubFailed`."""
        answer = await self._call(method, path, body)
        if answer.status in statuses:
            return answer
        raise HubFailed(f"{method} {path.partition('?')[0]}: {answer.message}")

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        url = f"{self._api}{path}"
        try:
            async with self._http.request(
                method, url, json=body, timeout=timeout, allow_redirects=False
            ) as answer:
                return await _answer(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = f"{method} {path.partition('?')[0]}"
            raise HubFailed(f"no answer to {what}: {type(error).__name__}") from error


def _user(name: str) -> str:
    return f"users/{quote(name, safe='')}"


async def _answer(answer: aiohttp.ClientResponse) -> Answer:
    raw = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        raw += chunk
        if len(raw) > MAX_BYTES:
            break
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    try:
        retry_after = max(float(answer.headers.get("Retry-After", PAUSE)), PAUSE)
    except ValueError:
        retry_after = PAUSE
    return Answer(answer.status, body, retry_after)


async def _is_ready(content: aiohttp.StreamReader) -> bool:
    """Whether the stream says that the server is ready; False where it just ends.

    Raises `StartFailed` where it says that the start has failed, and `ValueError` for a line that
    is no event.
    """
    async for line in content:
        if not line.startswith(b"data:"):
            continue
        event = json.loads(line.removeprefix(b"data:"))
        if event.get("failed"):
            said = " ".join(str(event.get("message", "")).split())
            raise StartFailed(visible(said.removeprefix("Spawn failed: ")[:MAX_MESSAGE]))
        if event.get("ready"):
            return True
    return False

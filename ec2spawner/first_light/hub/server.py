"""The journey's user at the hub and at the notebook server, over HTTP and websockets."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from .overrides import SERVICE, HubSettings

CALL_TIMEOUT: Final = 30.0
"""Seconds for one call."""

START_TIMEOUT: Final = 960.0
"""Seconds for a start: EC2Spawner ends it after 900 and says why."""

CELL_TIMEOUT: Final = 180.0
"""Seconds for a cell; the first import of a GPU library reads gigabytes from a new disk."""

MAX_BYTES: Final = 1 << 20
"""Bytes of one response or message of the instance that are read."""


class StepFailed(Exception):
    """A step of the journey did not do what it should; the message says what happened."""


class Server:
    """The one server of the journey's user."""

    def __init__(self, settings: HubSettings, http: aiohttp.ClientSession) -> None:
        self._hub = f"{settings.url}hub/api/users/{settings.user}"
        self._notebook = f"{settings.url}user/{settings.user}/"
        self._root = settings.url
        self._http = http

    # --- at the hub ---

    async def create_user(self) -> None:
        """The user, who may be there already."""
        await self._call("POST", self._hub, expected=(HTTPStatus.CREATED, HTTPStatus.CONFLICT))

    async def request_start(self, profile: str) -> None:
        """Ask for the server. Raises `StepFailed`."""
        started = (HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
        await self._call("POST", f"{self._hub}/server", {"profile": profile}, expected=started)

    async def progress(self) -> AsyncIterator[Mapping[str, Any]]:
        """Events of the start until it has ended. Raises `StepFailed` where it failed."""
        timeout = aiohttp.ClientTimeout(total=START_TIMEOUT, sock_read=CALL_TIMEOUT)
        url = f"{self._hub}/server/progress"
        try:
            async with self._http.get(url, timeout=timeout) as stream:
                if stream.status != HTTPStatus.OK:
                    raise StepFailed(f"the hub answers {stream.status} about the start's progress")
                async for line in stream.content:
                    if not line.startswith(b"data:"):
                        continue
                    event = json.loads(line.removeprefix(b"data:"))
                    if event.get("failed"):
                        raise StepFailed(str(event.get("message", "the start failed")))
                    yield event
                    if event.get("ready"):
                        return
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise StepFailed(f"the start's progress was lost: {error!r}") from error
        raise StepFailed("the hub ended the stream of the start's progress")

    async def stop(self) -> None:
        """Stop the server, and return when it has stopped. Raises `StepFailed`."""
        accepted = (HTTPStatus.NO_CONTENT, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND)
        await self._call("DELETE", f"{self._hub}/server", expected=accepted)
        await self.until_gone(START_TIMEOUT)

    async def until_gone(self, seconds: float) -> None:
        """Raises `StepFailed` where the hub still has a server after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while (await self._call("GET", self._hub))["servers"]:
                    await asyncio.sleep(1)
        except TimeoutError:
            raise StepFailed(f"the server still runs after {seconds:.0f} s") from None

    async def why_ended(self, end_url: str) -> str:
        """The reason of the stop, as for open pages, such as `idle`; empty if unknown."""
        root = self._root.split("/", 3)
        answer = await self._call("GET", f"{root[0]}//{root[2]}{end_url}")
        return str((answer.get("stop") or {}).get("reason", ""))

    # --- at the notebook server ---

    async def status(self) -> dict[str, Any]:
        """What the notebook extension says: agent, cost, idle stop. Raises `StepFailed`."""
        found: dict[str, Any] = await self._call("GET", f"{self._notebook}ec2spawner/api/status")
        return found

    async def read(self, path: str) -> str:
        """The text of a file of the home. Raises `StepFailed` where it is not there."""
        found = await self._call("GET", f"{self._notebook}api/contents/{path}?format=text")
        return str(found["content"])

    async def run_cell(self, code: str) -> str:
        """What the cell prints, in a kernel of its own. Raises `StepFailed`."""
        kernels = f"{self._notebook}api/kernels"
        created = (HTTPStatus.CREATED,)
        kernel = await self._call("POST", kernels, {"name": "python3"}, expected=created)
        url = f"{kernels}/{kernel['id']}"
        try:
            async with asyncio.timeout(CELL_TIMEOUT):
                return await self._execute(f"{url}/channels", code)
        except TimeoutError:
            raise StepFailed(f"the cell did not end within {CELL_TIMEOUT:.0f} s") from None
        finally:
            with suppress(StepFailed):  # the server may be gone, and with it the kernel
                await self._call("DELETE", url, expected=(HTTPStatus.NO_CONTENT,))

    async def _execute(self, url: str, code: str) -> str:
        request = _execute_request(code)
        try:
            async with self._http.ws_connect(url, max_msg_size=MAX_BYTES) as channels:
                await channels.send_json(request)
                return await _printed(channels, request["header"]["msg_id"])
        except (aiohttp.ClientError, ValueError, LookupError, TypeError) as error:
            raise StepFailed(f"the kernel's connection broke: {error!r}") from error

    async def _call(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        expected: tuple[int, ...] = (HTTPStatus.OK,),
    ) -> Any:
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        try:
            async with self._http.request(method, url, json=body, timeout=timeout) as answer:
                raw = await _bounded(answer.content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StepFailed(f"no answer to {method} {_path(url)}: {error!r}") from error
        text = raw.decode(errors="replace")
        if answer.status not in expected:
            raise StepFailed(f"{method} {_path(url)} answers {answer.status}: {text[:500]}")
        try:
            return json.loads(text) if text else {}
        except ValueError as error:
            raise StepFailed(f"{method} {_path(url)} answers no JSON: {text[:200]}") from error


async def _printed(channels: aiohttp.ClientWebSocketResponse, request_id: str) -> str:
    """What the request prints until its kernel is idle. Raises `StepFailed`."""
    printed: list[str] = []
    async for raw in channels:
        if raw.type is not aiohttp.WSMsgType.TEXT:
            break
        message = json.loads(raw.data)
        if message.get("parent_header", {}).get("msg_id") != request_id:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            printed.append(str(content["text"]))
        elif kind == "error":
            raise StepFailed(f"the cell failed: {content['ename']}: {content['evalue']}")
        elif kind == "status" and content["execution_state"] == "idle":
            return "".join(printed)
    raise StepFailed("the kernel's connection ended before the cell")


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """At most `MAX_BYTES` of a response."""
    raw = b""
    async for chunk in content.iter_chunked(1 << 16):
        raw += chunk
        if len(raw) >= MAX_BYTES:
            break
    return raw[:MAX_BYTES]


def _path(url: str) -> str:
    """Without host and query, which may hold a key."""
    return "/" + url.split("/", 3)[-1].partition("?")[0]


def _execute_request(code: str) -> dict[str, Any]:
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "username": SERVICE,
        "session": uuid.uuid4().hex,
        "date": datetime.now(UTC).isoformat(),
        "version": "5.3",
    }
    content = {"code": code, "silent": False, "stop_on_error": True, "allow_stdin": False}
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
    }

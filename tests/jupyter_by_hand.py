"""Somebody at a notebook server: notebooks, cells and terminals over its HTTP and websockets."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import aiohttp


class Jupyter:
    """Somebody at a notebook server, with a token for it."""

    def __init__(
        self, base_url: str, token: str, connector: aiohttp.BaseConnector | None = None
    ) -> None:
        self.base_url = base_url
        headers = {"Authorization": f"token {token}"}
        self.http = aiohttp.ClientSession(headers=headers, connector=connector)

    async def __aenter__(self) -> Jupyter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def call(self, method: str, path: str, **kwargs: Any) -> tuple[int, Any]:
        async with self.http.request(method, self.base_url + path, **kwargs) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def status(self) -> Any:
        status, body = await self.call("GET", "ec2spawner/api/status")
        assert status == 200, body
        return body

    async def start_notebook(self, path: str, kernel: str = "python3") -> str:
        """Open a notebook with a kernel; the kernel's id."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": kernel}}
        status, session = await self.call("POST", "api/sessions", json=body)
        assert status == 201, session
        return str(session["kernel"]["id"])

    async def execute(
        self, kernel_id: str, code: str, cell_id: str = ""
    ) -> aiohttp.ClientWebSocketResponse:
        """Run a cell; the kernel's websocket, with everything that it will say."""
        url = f"{self.base_url}api/kernels/{kernel_id}/channels"
        channels = await self.http.ws_connect(url)
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "ada",
            "session": uuid.uuid4().hex,
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "stop_on_error": True, "allow_stdin": True}
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {"cellId": cell_id} if cell_id else {},
            "content": content,
            "channel": "shell",
        }
        await channels.send_str(json.dumps(message))
        return channels

    async def type(self, line: str) -> str:
        """Open a terminal and type a line into it; the terminal's name."""
        status, terminal = await self.call("POST", "api/terminals")
        assert status == 200, terminal
        name = str(terminal["name"])
        async with self.http.ws_connect(f"{self.base_url}terminals/websocket/{name}") as socket:
            await socket.receive()  # set up
            await socket.send_str(json.dumps(["stdin", f"{line}\r"]))
            await socket.receive()  # its echo
        return name


class Kernel:
    """A kernel at a notebook server, and what its cells say."""

    def __init__(self, ada: Jupyter, kernel_id: str) -> None:
        self._ada = ada
        self.kernel_id = kernel_id

    async def run(
        self, code: str, interrupt_when: str = "", cell_id: str = "", seconds: float = 90
    ) -> list[dict[str, Any]]:
        """What the kernel says of this cell, in order; interrupted when it has printed that.

        Fails after `seconds`.
        """
        channels = await self._ada.execute(self.kernel_id, code, cell_id)
        said: list[tuple[str, dict[str, Any]]] = []
        idle_after: set[str] = set()
        replied_to = ""
        async with asyncio.timeout(seconds):
            # The kernel may also run what others have sent, and everyone hears its output.
            while replied_to not in idle_after:
                message = json.loads((await channels.receive()).data)
                kind, content = message["header"]["msg_type"], message["content"]
                if message["parent_header"].get("msg_type") != "execute_request":
                    continue
                request = str(message["parent_header"]["msg_id"])
                if kind == "status" and content["execution_state"] == "idle":
                    idle_after.add(request)
                if kind == "execute_reply":
                    replied_to = request
                said.append((request, {"kind": kind} | content))
                if interrupt_when and interrupt_when in content.get("text", ""):
                    await self._ada.call("POST", f"api/kernels/{self.kernel_id}/interrupt")
        await channels.close()
        return [each for request, each in said if request == replied_to]


def of_kind(said: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in said if each["kind"] in kinds]


def printed(said: list[dict[str, Any]]) -> str:
    """What a cell printed, and its errors."""
    errors = [each["evalue"] for each in of_kind(said, "error")]
    return "".join(each["text"] for each in of_kind(said, "stream")) + "".join(errors)

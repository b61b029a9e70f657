"""What a cell prints after its page was closed reaches the next page, or the file at a stop."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

from tests.integration.notebook.sleeping_server import SleepingServer
from tests.jupyter_by_hand import Jupyter

PROTOCOL = "v1.kernel.websocket.jupyter.org"

CELL = """
import os, time
print("begins")
while not os.path.exists("go"):
    time.sleep(0.02)
print("ends")
"""

pytestmark = pytest.mark.slow(seconds=10)


@pytest.fixture
async def server() -> AsyncIterator[SleepingServer]:
    home = Path(tempfile.mkdtemp(prefix="ec2missed-"))
    cell = {"cell_type": "code", "id": "the-cell", "metadata": {}, "outputs": [], "source": CELL}
    notebook = {"cells": [cell | {"execution_count": None}], "nbformat": 4, "nbformat_minor": 5}
    (home / "a.ipynb").write_text(json.dumps(notebook | {"metadata": {}}))
    server = SleepingServer(home)
    try:
        await server.start()
        yield server
    finally:
        await server.end()
        print(server.log()[-4000:])
        shutil.rmtree(home, ignore_errors=True)


class Page:
    """A page as far as it runs cells: one websocket to the kernel of the notebook."""

    def __init__(self, ada: Jupyter | None) -> None:
        assert ada is not None
        self._ada = ada
        self._session = str(uuid.uuid4())
        self._kernel = ""
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self) -> None:
        self._kernel = self._kernel or await self._ada.start_notebook("a.ipynb")
        path = f"api/kernels/{self._kernel}/channels?session_id={self._session}"
        self._socket = await self._ada.http.ws_connect(
            self._ada.base_url + path, protocols=[PROTOCOL]
        )

    async def run(self, *, until: str) -> None:
        assert self._socket is not None
        header = {
            "msg_id": str(uuid.uuid4()),
            "msg_type": "execute_request",
            "session": self._session,
            "username": "",
            "date": "2026-11-03T14:00:00Z",
            "version": "5.3",
        }
        content = {"code": CELL, "silent": False, "store_history": True, "allow_stdin": False}
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {"cellId": "the-cell"},
            "content": content,
        }
        packed = serialize_msg_to_ws_v1(message, "shell", lambda each: json.dumps(each).encode())
        await self._socket.send_bytes(packed)
        async with asyncio.timeout(60):
            while until not in await self._next_printed():
                pass

    async def _next_printed(self) -> str:
        assert self._socket is not None
        _, parts = deserialize_msg_from_ws_v1((await self._socket.receive()).data)
        return str(json.loads(parts[3]).get("text", ""))

    async def close(self) -> None:
        assert self._socket is not None
        await self._socket.close()


async def missed(server: SleepingServer) -> list[Any]:
    """What the next page would be given."""
    assert server.ada is not None
    _, answer = await server.ada.call("GET", "ec2spawner/api/outputs?path=a.ipynb")
    executions: list[Any] = answer["executions"]
    return executions


async def until_missed(server: SleepingServer, text: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            for each in await missed(server):
                if text in printed(each["outputs"]):
                    return dict(each)
            await asyncio.sleep(0.05)


def in_file(server: SleepingServer) -> str:
    try:
        notebook = json.loads((server.home / "a.ipynb").read_text())
    except json.JSONDecodeError:
        return ""  # Jupyter Server is writing it, in place
    return printed(notebook["cells"][0]["outputs"])


def printed(outputs: list[dict[str, Any]]) -> str:
    return "".join("".join(each.get("text", "")) for each in outputs)


async def test_the_next_page_gets_what_the_closed_one_has_missed(server: SleepingServer) -> None:
    page = Page(server.ada)
    await page.open()
    await page.run(until="begins")
    assert await missed(server) == [], "the page gets it itself"
    await page.close()
    seen = await until_missed(server, "begins")
    assert (seen["cell_id"], seen["is_running"], seen["execution_count"]) == ("the-cell", True, 1)

    (server.home / "go").touch()
    await until_missed(server, "ends")
    async with asyncio.timeout(30):
        while (await missed(server))[0]["is_running"]:
            await asyncio.sleep(0.05)
    other = Page(server.ada)
    await other.open()
    order = server.new_order(10, interrupt_busy=False)
    server.push(order)
    await server.until(lambda: server.answers(order.id), 15)
    assert in_file(server) == "", "the page that shows it saves it, and would find another file"
    await other.close()
    assert server.ada is not None
    await server.ada.call("POST", "ec2spawner/api/outputs", json={"ids": [seen["id"]]})
    assert await missed(server) == []


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_missed_executions.py::"
    "test_only_pages_that_are_gone_have_missed_something"
)
async def test_a_page_that_comes_back_has_missed_nothing(server: SleepingServer) -> None:
    page = Page(server.ada)
    await page.open()
    await page.run(until="begins")
    await page.close()
    await until_missed(server, "begins")
    await page.open()
    assert await missed(server) == []
    (server.home / "go").touch()


async def test_at_its_end_the_server_writes_what_is_missed_into_the_file(
    server: SleepingServer,
) -> None:
    page = Page(server.ada)
    await page.open()
    await page.run(until="begins")
    await page.close()
    (server.home / "go").touch()
    await until_missed(server, "ends")
    assert in_file(server) == "", "a page that comes back would find another file"
    await server.end(signal.SIGTERM)
    assert in_file(server) == "begins\nends\n"


async def test_a_sleep_writes_what_is_missed_before_variables(server: SleepingServer) -> None:
    page = Page(server.ada)
    await page.open()
    await page.run(until="begins")
    await page.close()
    await until_missed(server, "begins")
    order = server.new_order(30, interrupt_busy=False)
    server.push(order)
    await server.until(lambda: in_file(server) == "begins\n", 15)
    assert not server.answers(order.id), "the kernel is still running its cell"
    await server.end(signal.SIGKILL)
    assert in_file(server) == "begins\n"


async def test_a_cell_that_a_sleep_interrupts_is_known_after_the_wake(
    server: SleepingServer,
) -> None:
    page = Page(server.ada)
    await page.open()
    await page.run(until="begins")
    said = await server.sleep(6)
    assert said.session is not None
    [saved] = said.session.kernels
    assert (saved.code, saved.interrupted_cell) == ("", "the-cell")
    await page.close()
    await server.end()
    ada = await server.start()
    [woken] = (await server.woken())["kernels"]
    assert woken["interrupted_cell"] == "the-cell"
    [notice] = (await ada.status())["notices"]
    assert notice["title"] == {"code": "session-cell-interrupted", "params": {"name": "a.ipynb"}}
    assert notice["actions"] == ["cell", "panel"]

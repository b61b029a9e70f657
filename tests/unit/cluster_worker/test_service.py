"""What a worker answers, and whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import aiohttp
import pytest
from aiohttp import web

from ec2spawner.cluster_worker.log_tail import MAX_LINE, MAX_LINES, LogTail
from ec2spawner.cluster_worker.service import Service
from tests.harness import free_ports

TOKEN = "t" * 32


class Node:
    """An engine that does nothing."""

    async def join(self) -> None: ...

    async def wait(self) -> str:
        return ""

    async def drain(self, seconds: float) -> None: ...

    async def leave(self) -> None: ...

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return (web.get("/node", self._name),)

    async def _name(self, request: web.Request) -> web.Response:
        return web.Response(text="node")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    tail = LogTail()
    tail.add("Ray runtime started.")
    [port] = free_ports(1)
    async with Service(Node(), TOKEN, tail).listening("127.0.0.1", port):
        yield f"http://127.0.0.1:{port}"


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_the_notebook_of_the_cluster_reads_the_log(url: str) -> None:
    status, text = await get(f"{url}/log", Authorization=f"Bearer {TOKEN}")
    assert (status, text) == (200, "Ray runtime started.\n")


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": f"Bearer {'x' * 32}"}, {"Authorization": TOKEN}],
)
async def test_nobody_else_does(url: str, headers: dict[str, str]) -> None:
    assert (await get(f"{url}/log", **headers))[0] == 401


async def test_bytes_that_are_no_text_are_refused_like_any_other_token(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
    answer = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    assert answer.split()[1] == b"401", answer


async def test_no_web_page_does(url: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://example.org"}
    assert (await get(f"{url}/log", **headers))[0] == 403


async def test_what_an_engine_answers_is_for_the_cluster_too(url: str) -> None:
    assert (await get(f"{url}/node"))[0] == 401
    assert await get(f"{url}/node", Authorization=f"Bearer {TOKEN}") == (200, "node")


async def test_that_it_listens_is_no_secret(url: str) -> None:
    assert await get(f"{url}/api") == (200, "{}")


async def test_a_log_is_bounded() -> None:
    tail = LogTail()
    for number in range(MAX_LINES + 10):
        tail.add(f"{number} {'x' * 2 * MAX_LINE}")
    lines = tail.text().splitlines()
    assert len(lines) == MAX_LINES
    assert lines[0].startswith("10 ")
    assert max(map(len, lines)) == MAX_LINE

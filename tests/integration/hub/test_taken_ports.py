"""A hub whose proxy cannot listen ends, and never uses another hub's proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.harness import START_TIMEOUT, Embedded, Hub

SENTENCE = "The proxy could not listen on"


async def test_a_hub_ends_whose_proxy_found_a_port_taken(
    embedded: Embedded, tmp_path: Path
) -> None:
    first = Hub(tmp_path / "first", embedded)
    try:
        await first.start()
        routes = await proxied(first)
        async with asyncio.TaskGroup() as tasks:
            for taken in ("port", "proxy_port"):
                tasks.create_task(ends(Hub(tmp_path / taken, embedded), first, taken))
        assert await proxied(first) == routes
    finally:
        await first.stop()


async def ends(second: Hub, first: Hub, taken: str) -> None:
    """The other hub's proxy has this port, and even accepts this hub's token."""
    second.proxy_token = first.proxy_token
    setattr(second, taken, getattr(first, taken))
    second.url = f"http://127.0.0.1:{second.port}"
    try:
        await second.launch()
        assert second.process is not None
        assert await asyncio.wait_for(second.process.wait(), START_TIMEOUT) == 1
        log = second.log.read_text()
        assert SENTENCE in log, log
        assert f"127.0.0.1:{getattr(second, taken)}" in log.split(SENTENCE)[1].splitlines()[0]
    finally:
        await second.stop()


async def proxied(hub: Hub) -> object:
    """The targets of the hub's proxy, by path."""
    headers = {"Authorization": f"token {hub.proxy_token}"}
    reply = await hub.api.get(f"http://127.0.0.1:{hub.proxy_port}/api/routes", headers=headers)
    return {path: route["target"] for path, route in reply.json().items()}

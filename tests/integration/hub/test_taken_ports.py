"""A hub whose proxy cannot listen ends, and never uses another hub's proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness import START_TIMEOUT, Embedded, Hub

SENTENCE = "The proxy could not listen on"


@pytest.mark.parametrize(
    "taken",
    [
        "port",
        pytest.param(
            "proxy_port",
            marks=pytest.mark.nightly(
                guard="tests/integration/hub/test_taken_ports.py::"
                "test_a_hub_ends_whose_proxy_found_a_port_taken"
            ),
        ),
    ],
)
async def test_a_hub_ends_whose_proxy_found_a_port_taken(
    embedded: Embedded, tmp_path: Path, taken: str
) -> None:
    """The other proxy even accepts this hub's token."""
    first, second = (Hub(tmp_path / name, embedded) for name in ("first", "second"))
    second.proxy_token = first.proxy_token
    setattr(second, taken, getattr(first, taken))
    second.url = f"http://127.0.0.1:{second.port}"
    try:
        await first.start()
        routes = await proxied(first)
        await second.launch()
        assert second.process is not None
        assert await asyncio.wait_for(second.process.wait(), START_TIMEOUT) == 1
        log = second.log.read_text()
        assert SENTENCE in log, log
        assert f"127.0.0.1:{getattr(second, taken)}" in log.split(SENTENCE)[1].splitlines()[0]
        assert await proxied(first) == routes
    finally:
        await second.stop()
        await first.stop()


async def proxied(hub: Hub) -> object:
    """The targets of the hub's proxy, by path."""
    headers = {"Authorization": f"token {hub.proxy_token}"}
    reply = await hub.api.get(f"http://127.0.0.1:{hub.proxy_port}/api/routes", headers=headers)
    return {path: route["target"] for path, route in reply.json().items()}

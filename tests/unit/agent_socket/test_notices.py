"""A process hears from its instance's agent that AWS reclaims the instance, and acts once."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ec2spawner.agent_socket import notices
from ec2spawner.agent_socket.notices import watch_notices


async def test_the_first_notice_is_acted_upon_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "RECONNECT_SECONDS", 0.01)
    at = (datetime.now(UTC) + timedelta(seconds=120)).isoformat()
    connections = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(json.dumps({"interruption_at": None}).encode() + b"\n")
        if connections == 1:
            writer.write(b"no JSON\n")
        else:
            writer.write(json.dumps({"interruption_at": at}).encode() + b"\n")
        await writer.drain()
        writer.close()

    drained: list[float] = []

    async def drain(seconds: float) -> None:
        drained.append(seconds)

    path = str(tmp_path / "agent.sock")
    server = await asyncio.start_unix_server(serve, path)
    async with server, asyncio.timeout(10):
        await watch_notices(path, drain)
    assert len(drained) == 1
    assert 100 < drained[0] <= 120
    assert connections == 2, "what is no state ends one connection"


async def test_without_an_agent_nothing_is_watched() -> None:
    async def drain(seconds: float) -> None:
        raise AssertionError(seconds)

    await watch_notices("", drain)

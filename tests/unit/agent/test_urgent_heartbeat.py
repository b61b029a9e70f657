"""When the next heartbeat is sent after one that news has replaced."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ec2spawner.agent.hub.heartbeat import GAP_SECONDS, Heartbeat
from ec2spawner.wire import IdlePolicy


class HoldingHub:
    """Holds every heartbeat."""

    def __init__(self) -> None:
        self.received = asyncio.Semaphore(0)

    async def heartbeat(self, _heartbeat: Any) -> Any:
        self.received.release()
        await asyncio.Event().wait()


async def test_a_spot_notice_does_not_wait_for_the_gap() -> None:
    hub = HoldingHub()
    status = SimpleNamespace(state_seen="", policy=IdlePolicy(), heartbeat=lambda _hold: None)
    heartbeat = Heartbeat(cast("Any", hub), cast("Any", status), lambda _answer: None)
    running = asyncio.create_task(heartbeat.run())
    try:
        await hub.received.acquire()
        heartbeat.news()
        await asyncio.sleep(0)
        assert hub.received.locked(), "other news waits"
        heartbeat.news(urgent=True)
        async with asyncio.timeout(GAP_SECONDS / 2):
            await hub.received.acquire()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

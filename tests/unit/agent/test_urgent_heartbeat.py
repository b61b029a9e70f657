"""When the next heartbeat is sent after one that news has replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from ec2spawner.agent.hub.heartbeat import GAP_SECONDS, Heartbeat
from ec2spawner.wire import IdlePolicy


class HoldingHub:
    """Holds every heartbeat until `answer`."""

    def __init__(self) -> None:
        self.received = asyncio.Semaphore(0)
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def heartbeat(self, _heartbeat: Any) -> Any:
        self.received.release()
        return await asyncio.shield(self.answer)


@asynccontextmanager
async def beating(hub: HoldingHub) -> AsyncIterator[tuple[Heartbeat, asyncio.Queue[Any]]]:
    """A heartbeat whose first one the hub holds, and the responses that it hears."""
    status = SimpleNamespace(
        state_seen="", policy=IdlePolicy(), heartbeat=lambda _hold: None, hub_reachable=True
    )
    heard: asyncio.Queue[Any] = asyncio.Queue()
    heartbeat = Heartbeat(cast("Any", hub), cast("Any", status), heard.put_nowait)
    running = asyncio.create_task(heartbeat.run())
    try:
        await hub.received.acquire()
        yield heartbeat, heard
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_spot_notice_does_not_wait_for_the_gap() -> None:
    hub = HoldingHub()
    async with beating(hub) as (heartbeat, _):
        heartbeat.news()
        await asyncio.sleep(0)
        assert hub.received.locked(), "other news waits"
        heartbeat.news(urgent=True)
        async with asyncio.timeout(GAP_SECONDS / 2):
            await hub.received.acquire()


async def test_the_hub_reaches_an_agent_whose_news_waits_for_the_gap() -> None:
    hub = HoldingHub()
    async with beating(hub) as (heartbeat, heard):
        heartbeat.news()
        await asyncio.sleep(0.05)
        hub.answer.set_result(SimpleNamespace(state="", stop="now"))
        async with asyncio.timeout(GAP_SECONDS / 2):
            assert (await heard.get()).stop == "now"
            await hub.received.acquire()  # with the news

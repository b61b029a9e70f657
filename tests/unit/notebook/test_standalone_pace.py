"""Without an agent, the extension measures all the time: quickly while somebody asks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from ec2spawner.notebook.standalone import UNASKED_SECONDS, Standalone
from ec2spawner.telemetry import HistoryBuffer
from ec2spawner.wire import Observation


class Observer:
    async def observe(self) -> Observation:
        return Observation(at=datetime.now(UTC))


async def test_slow_sampling_while_no_page_is_open() -> None:
    now = 1000.0
    observer: Any = Observer()
    standalone = Standalone(observer, HistoryBuffer(), monotonic=lambda: now)
    running = asyncio.create_task(standalone.run())
    try:
        async with asyncio.timeout(90):
            while standalone.last is None or standalone.last.telemetry is None:
                await asyncio.sleep(0.05)
                await standalone.status()
        assert standalone.last.telemetry.cpu_count
        assert standalone.sampler.interval == 1
        now += UNASKED_SECONDS + 1
        await standalone.check()
        assert standalone.sampler.interval == 5
        await standalone.status()
        assert standalone.sampler.interval == 1
    finally:
        running.cancel()
        standalone.close()

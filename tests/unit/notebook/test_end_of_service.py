"""The extension stops once, however often its server is stopped."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from ec2spawner.notebook.service import NotebookService
from ec2spawner.wire import SleepOrder


async def test_a_second_stop_awaits_the_first_and_no_order_begins_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    service = NotebookService(
        MagicMock(), logging.getLogger(), agent_socket="/nowhere", owner="ada", end_url=""
    )
    assert service.sleep is not None
    begun, go = asyncio.Event(), asyncio.Event()
    writes = 0

    async def write(*, is_last: bool) -> None:
        nonlocal writes
        writes += 1
        begun.set()
        await go.wait()

    monkeypatch.setattr(service.outputs, "write", write)
    first = asyncio.create_task(service.stop())
    await begun.wait()
    second = asyncio.create_task(service.stop())
    service.sleep.order(
        SleepOrder(
            id="late", trigger="idle", until=datetime.now(UTC), interrupt_busy=False, max_bytes=1
        )
    )
    await asyncio.sleep(0)
    assert not second.done()
    go.set()
    async with asyncio.timeout(60):
        await asyncio.gather(first, second)
        await service.stop()
    assert writes == 1
    assert service.sleep.saving is None
    assert asyncio.all_tasks() == {asyncio.current_task()}

"""Writes that happen late: each until it is stored, and none in the way of another."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.provisioner.store.database import StoreError
from ec2spawner.provisioner.store.write_behind import WriteBehindQueue


class Records:
    """What is stored, and what the store refuses."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.refused: set[str] = set()

    async def write(self, record: str) -> None:
        await asyncio.sleep(0)
        if record in self.refused:
            raise StoreError("refused")
        self.stored.append(record)


async def test_a_record_that_is_always_refused_holds_up_no_other() -> None:
    records, queue = Records(), WriteBehindQueue()
    records.refused = {"a"}
    for record in ("a", "b", "c"):
        queue.later(record, lambda record=record: records.write(record))  # type: ignore[misc]
    await queue.retry()
    await queue.retry()
    assert records.stored == ["b", "c"]
    assert queue.is_pending("a")
    records.refused = set()
    await queue.retry()
    assert records.stored == ["b", "c", "a"]
    assert not queue.is_pending("a")


async def test_a_failed_write_is_replaced_by_a_newer_one() -> None:
    records, queue = Records(), WriteBehindQueue()
    records.refused = {"old"}
    with pytest.raises(StoreError):
        await queue.now("lease", lambda: records.write("old"))
    await queue.now("lease", lambda: records.write("new"))
    await queue.retry()
    assert records.stored == ["new"]


async def test_a_cancelled_caller_cancels_no_write() -> None:
    records, queue = Records(), WriteBehindQueue()
    caller = asyncio.create_task(queue.now("lease", lambda: records.write("lease")))
    await asyncio.sleep(0)
    caller.cancel()
    await queue.drain()
    assert records.stored == ["lease"]
    assert not queue.is_pending("lease")


async def test_a_flush_waits_for_the_write_in_progress_and_repeats_none() -> None:
    records, queue = Records(), WriteBehindQueue()
    write = asyncio.create_task(queue.now("lease", lambda: records.write("lease")))
    await asyncio.sleep(0)
    await asyncio.gather(write, queue.flush("lease"), queue.retry())
    await queue.flush("lease")
    assert records.stored == ["lease"]

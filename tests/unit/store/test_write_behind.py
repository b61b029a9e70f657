"""Writes that happen late: each until it is stored, and none in the way of another."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ec2spawner.provisioner.store.databases.database import (
    StoreAwayError,
    StoreError,
    StoreHeldError,
    StoreTimeoutError,
)
from ec2spawner.provisioner.store.write_behind import WriteBehindQueue


class Records:
    """What is stored, and what the store refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.tried: list[str] = []
        self.stored: list[str] = []
        self.refused: set[str] = set()
        self._error = error or StoreError("refused")

    async def write(self, record: str) -> None:
        await asyncio.sleep(0)
        self.tried.append(record)
        if record in self.refused:
            raise self._error
        self.stored.append(record)


def queue_all(queue: WriteBehindQueue, records: Records) -> None:
    for record in ("a", "b", "c"):
        queue.later(record, partial(records.write, record))


@pytest.mark.parametrize("error", [StoreError("refused"), TypeError("a defect")])
async def test_a_record_that_is_always_refused_holds_up_no_other(error: Exception) -> None:
    records, queue = Records(error), WriteBehindQueue()
    records.refused = {"a", "b"}
    queue_all(queue, records)
    await queue.retry()
    assert records.stored == ["c"]
    assert queue.is_pending("a")
    records.refused = set()
    await queue.retry()
    assert records.stored == ["c", "a", "b"]
    assert not queue.is_pending("a")


async def test_the_last_try_before_the_end_leaves_out_none() -> None:
    records, queue = Records(), WriteBehindQueue()
    records.refused = {"a"}
    queue_all(queue, records)
    await queue.drain()
    assert records.stored == ["b", "c"]


@pytest.mark.parametrize("error", [StoreAwayError(""), StoreHeldError(""), StoreTimeoutError("")])
async def test_a_store_that_fails_is_not_asked_for_every_record(error: StoreError) -> None:
    records, queue = Records(error), WriteBehindQueue()
    records.refused = {"a", "b", "c"}
    queue_all(queue, records)
    await queue.retry()
    assert records.tried == ["a"]
    records.refused = set()
    await queue.retry()
    assert records.stored == ["a", "b", "c"]


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

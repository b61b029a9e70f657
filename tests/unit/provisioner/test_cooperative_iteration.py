"""Iteration that leaves the event loop to others: what is yielded, and how often they run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH, cooperatively


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 4 * BATCH])
async def test_all_items_come_in_order_and_others_run_between_full_batches(count: int) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    found = [item async for item in cooperatively(range(count))]
    task.cancel()
    assert found == list(range(count))
    assert turns == max(count - 1, 0) // BATCH


async def test_items_are_made_as_they_are_wanted() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3 * BATCH):
            made.append(number)
            yield number

    assert await anext(aiter(cooperatively(items()))) == 0
    assert made == [0], "making them may be what takes long"

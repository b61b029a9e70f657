"""Starts proceed one after the other, with the event loop's other work in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise

from ec2spawner.hub.app.event_loop.loop_turns import LoopTurns


async def test_other_work_runs_between_any_two() -> None:
    turns, noted = LoopTurns(), list[str]()

    async def one(number: int) -> None:
        await turns.take()
        noted.append(f"start {number}")

    async def others() -> None:
        while len(noted) < 20:
            noted.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(*(one(number) for number in range(5)), others())
    first = [index for index, what in enumerate(noted) if what.startswith("start")]
    assert [noted[index] for index in first] == [f"start {number}" for number in range(5)]
    assert all("other" in noted[a:b] for a, b in pairwise(first))


async def test_one_that_gives_up_holds_nobody_up() -> None:
    turns, noted = LoopTurns(), list[int]()

    async def one(number: int) -> None:
        await turns.take()
        noted.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(4)]
    await asyncio.sleep(0)  # the first has its turn, the others wait for theirs
    for task in tasks[:2]:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert noted == [2, 3]

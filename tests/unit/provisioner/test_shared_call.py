"""One call for all who ask at the same time, and none that began before they asked."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.provisioner.runtime.shared_call import SharedCall


class Calls:
    """Calls that end when they are let go; each returns its number."""

    def __init__(self) -> None:
        self.number = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.number += 1
        number = self.number
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return number


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_asks_during_a_call_waits_for_the_next_one_with_all_others() -> None:
    calls = Calls()
    shared = SharedCall(calls)
    first = asyncio.create_task(shared())
    await turns()
    later = [asyncio.create_task(shared()) for _ in range(50)]
    await turns()
    assert calls.number == 1
    calls.go.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 50
    assert await shared() == 3, "what ended before is not what is so now"


async def test_a_failure_is_that_of_all_who_waited_for_it() -> None:
    calls = Calls()
    calls.error = OSError("no answer")
    shared = SharedCall(calls)
    waiting = [asyncio.create_task(shared()) for _ in range(50)]
    await turns()
    calls.go.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, OSError) for each in found)
    assert calls.number == 2
    calls.error = None
    assert await shared() == 3


async def test_a_caller_that_gives_up_leaves_the_call_to_the_others() -> None:
    calls = Calls()
    shared = SharedCall(calls)
    first, second = asyncio.create_task(shared()), asyncio.create_task(shared())
    await turns()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    calls.go.set()
    assert await second == 2

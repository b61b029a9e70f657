"""The loop of these tests: what it waits for, and that a seed chooses the order."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.provisioner.world import TIMEOUT, until
from tests.virtual_time import VirtualTimeLoop, virtual_loop


async def story() -> list[tuple[str, float]]:
    """What happened, and when, while a store and calls were used at the same time."""
    loop, happened = virtual_loop(), list[tuple[str, float]]()

    async def call(name: str) -> None:
        await asyncio.sleep(loop.delay(2.5))
        happened.append((f"call {name}", loop.time()))

    async def write(name: str) -> None:
        await loop.run_in_executor(None, happened.append, (f"write {name}", loop.time()))

    await asyncio.gather(
        *(work(f"{work.__name__} {n}") for n in range(5) for work in (call, write))
    )
    return happened


def said(seed: int) -> list[tuple[str, float]]:
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(seed)) as runner:
        return runner.run(story())


def test_a_seed_chooses_an_order_and_always_the_same() -> None:
    assert said(0) == said(0)
    assert len({str([name for name, _ in said(seed)]) for seed in range(5)}) > 1


async def test_a_condition_is_seen_at_the_instant_at_which_it_holds() -> None:
    began = virtual_loop().time()
    task = asyncio.create_task(asyncio.sleep(3600))
    with pytest.raises(AssertionError, match="the sleep"):
        await until(task.done, "the sleep")
    assert virtual_loop().time() - began == TIMEOUT
    assert await virtual_loop().until(task.done, 3600)
    assert virtual_loop().time() - began == 3600


async def test_waiting_fails_at_once_where_nothing_is_scheduled() -> None:
    began = virtual_loop().time()
    with pytest.raises(AssertionError, match="nothing"):
        await until(lambda: False, "nothing")
    assert virtual_loop().time() == began


async def test_an_exception_of_a_condition_is_the_waiting_tests() -> None:
    asked: list[int] = []
    asyncio.get_running_loop().call_later(1, asked.append, 1)
    with pytest.raises(ZeroDivisionError):
        await until(lambda: asked and 1 / 0)


async def test_work_that_is_held_begins_once_it_may() -> None:
    loop = virtual_loop()
    loop.hold_work()
    work = asyncio.create_task(asyncio.to_thread(loop.time))
    await asyncio.sleep(100)
    assert not work.done()
    loop.continue_work()
    assert await work >= 100


def test_a_task_that_only_yields_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.virtual_time.MAX_TURNS", 10)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
        pytest.raises(AssertionError, match="no time would ever pass"),
    ):
        runner.run(spin())

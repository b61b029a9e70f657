"""One pause for all while EC2 is busy."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.provisioner import backoff
from ec2spawner.provisioner.backoff import Backoff


@pytest.fixture(autouse=True)
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff.random, "uniform", lambda _, longest: longest)


def now() -> float:
    return asyncio.get_running_loop().time()


async def ask(shared: Backoff, *, busy: bool, patience: float = 5.0) -> float:
    """Make one call; when it was made."""
    async with shared.turn(now() + patience) as turn:
        at = now()
        await asyncio.sleep(0.01)
        shared.tell(turn, busy=busy)
    return at


async def test_nobody_waits_while_ec2_is_well() -> None:
    shared = Backoff(10)
    began = now()
    calls = await asyncio.gather(*(ask(shared, busy=False) for _ in range(5)))
    assert max(calls) - began < 5, "nobody a pause"


async def test_calls_refused_at_once_count_once() -> None:
    shared = Backoff(0.1)
    await asyncio.gather(*(ask(shared, busy=True) for _ in range(5)))
    began = now()
    assert 0.08 < await ask(shared, busy=False) - began < 1, "the first pause, not the fifth"


async def test_one_at_a_time_asks_and_the_first_answer_lets_all_others_go() -> None:
    shared = Backoff(0.05)
    await ask(shared, busy=True)
    all_four = asyncio.Barrier(4)

    async def go() -> None:
        async with shared.turn(now() + 5) as turn, asyncio.timeout(5):
            await all_four.wait()
            shared.tell(turn, busy=False)

    first, second, *_ = await asyncio.gather(
        ask(shared, busy=True), ask(shared, busy=False), *(go() for _ in range(4))
    )
    assert second - first >= 0.1, "the pause doubled"


async def test_the_pause_grows_to_fifteen_times_the_first() -> None:
    shared = Backoff(0.005)
    for _ in range(8):
        await ask(shared, busy=True)
    began = now()
    assert 0.06 < await ask(shared, busy=False) - began < 0.5, "not 128 times the first"


async def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    shared = Backoff(10)
    await ask(shared, busy=True)
    with pytest.raises(TimeoutError):
        await ask(shared, busy=False, patience=0.02)
    with pytest.raises(TimeoutError):
        await asyncio.gather(*(ask(shared, busy=False, patience=0.02) for _ in range(2)))


async def test_an_answer_to_an_older_call_is_no_news() -> None:
    shared = Backoff(0.1)
    async with shared.turn(now() + 5) as slow:
        await ask(shared, busy=True)
        shared.tell(slow, busy=False)
    began = now()
    assert await ask(shared, busy=False) - began > 0.08


async def test_whoever_gives_up_its_turn_leaves_it_to_the_next() -> None:
    shared = Backoff(0.1)
    await ask(shared, busy=True)
    cancelled = asyncio.create_task(ask(shared, busy=False))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(ask(shared, busy=False))
    await asyncio.sleep(0.01)
    cancelled.cancel()
    await asyncio.wait_for(waiting, 1)

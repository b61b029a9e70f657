"""One pause for all while EC2 is busy, in virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from ec2spawner.provisioner.launch.shared_backoff import SharedBackoff

CALL_SECONDS = 0.01


@pytest.fixture(autouse=True)
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda _, longest: longest)


def now() -> float:
    return asyncio.get_running_loop().time()


async def ask(shared: SharedBackoff, *, busy: bool, timeout: float = 5.0) -> float:
    """Make one call; when it was made."""
    async with shared.turn(now() + timeout) as turn:
        at = now()
        await asyncio.sleep(CALL_SECONDS)
        shared.report(turn, busy=busy)
    return at


async def test_no_call_waits_while_ec2_is_healthy() -> None:
    shared = SharedBackoff(10)
    began = now()
    calls = await asyncio.gather(*(ask(shared, busy=False) for _ in range(5)))
    assert calls == [began] * 5


async def test_calls_refused_at_once_count_once() -> None:
    shared = SharedBackoff(0.1)
    await asyncio.gather(*(ask(shared, busy=True) for _ in range(5)))
    began = now()
    assert await ask(shared, busy=False) - began == pytest.approx(0.1), "the first, not the fifth"


async def test_one_call_probes_and_its_response_releases_all_others() -> None:
    shared = SharedBackoff(0.05)
    await ask(shared, busy=True)
    all_four = asyncio.Barrier(4)

    async def go() -> None:
        async with shared.turn(now() + 5) as turn, asyncio.timeout(5):
            await all_four.wait()
            shared.report(turn, busy=False)

    first, second, *_ = await asyncio.gather(
        ask(shared, busy=True), ask(shared, busy=False), *(go() for _ in range(4))
    )
    assert second - first == pytest.approx(CALL_SECONDS + 0.1), "the pause doubled"


async def test_the_pause_grows_to_fifteen_times_the_first() -> None:
    shared = SharedBackoff(0.005)
    for _ in range(8):
        await ask(shared, busy=True)
    began = now()
    assert await ask(shared, busy=False) - began == pytest.approx(15 * 0.005), "not 128 times"


async def test_a_turn_is_abandoned_after_its_timeout() -> None:
    shared = SharedBackoff(10)
    await ask(shared, busy=True)
    with pytest.raises(TimeoutError):
        await ask(shared, busy=False, timeout=0.02)
    with pytest.raises(TimeoutError):
        await asyncio.gather(*(ask(shared, busy=False, timeout=0.02) for _ in range(2)))


async def test_a_response_to_an_older_call_is_ignored() -> None:
    shared = SharedBackoff(0.1)
    async with shared.turn(now() + 5) as slow:
        await ask(shared, busy=True)
        shared.report(slow, busy=False)
    began = now()
    assert await ask(shared, busy=False) - began == pytest.approx(0.1)


async def test_an_abandoned_turn_passes_to_the_next() -> None:
    shared = SharedBackoff(0.1)
    await ask(shared, busy=True)
    cancelled = asyncio.create_task(ask(shared, busy=False))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(ask(shared, busy=False))
    await asyncio.sleep(CALL_SECONDS)
    cancelled.cancel()
    await asyncio.wait_for(waiting, 1)

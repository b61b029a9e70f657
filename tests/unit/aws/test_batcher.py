"""Requests that share a call: who gets what, how old it is, and what becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from ec2spawner.aws.calls.batcher import LATER, SOON, SPACING, Batcher
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from tests.virtual_time import in_virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


class Shelf:
    """Answers with the moment at which a call began; keys that begin with `-` are absent."""

    def __init__(self, size: int = 200, seconds: float = 0.5) -> None:
        self.calls: list[tuple[float, list[str]]] = []
        self.error: Exception | None = None
        self.seconds = seconds
        self.batcher: Batcher[float] = Batcher(self.ask, size)

    async def ask(self, keys: Sequence[str]) -> Mapping[str, float]:
        began = now()
        self.calls.append((began, list(keys)))
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return {key: began for key in keys if not key.startswith("-")}

    def begin(self, *keys: str, within: float = SOON) -> list[asyncio.Task[float | None]]:
        return [asyncio.ensure_future(self.batcher.get(key, within)) for key in keys]


@in_virtual_time
async def test_requests_within_the_window_share_one_call() -> None:
    shelf = Shelf()
    first = shelf.begin("a", "b", "-c")
    await asyncio.sleep(SOON * 0.9)
    answers = await asyncio.gather(*first, *shelf.begin("d", "a"))
    assert answers == [SOON, SOON, None, SOON, SOON]
    assert shelf.calls == [(SOON, ["a", "b", "-c", "d"])]


@in_virtual_time
async def test_no_answer_is_older_than_its_request() -> None:
    shelf = Shelf()
    first = shelf.begin("a")
    await asyncio.sleep(SOON + 0.2)  # its call is under way
    asked_at = now()
    answer = await shelf.batcher.get("a")
    assert answer is not None
    assert answer >= asked_at
    assert await first[0] == SOON


@in_virtual_time
async def test_a_request_that_can_wait_joins_one_that_cannot() -> None:
    shelf = Shelf()
    patient = shelf.begin("a", within=LATER)
    await asyncio.sleep(0.3)
    await asyncio.gather(*patient, *shelf.begin("b"))
    assert shelf.calls == [(pytest.approx(0.4), ["a", "b"])]
    await shelf.batcher.get("c", LATER)
    assert shelf.calls[1] == (pytest.approx(0.9 + LATER), ["c"])


@in_virtual_time
async def test_a_request_that_can_wait_delays_no_other() -> None:
    shelf = Shelf()
    await asyncio.gather(*shelf.begin("a"), *shelf.begin("b", within=LATER))
    assert shelf.calls == [(SOON, ["a", "b"])]


@in_virtual_time
async def test_a_full_call_is_made_at_once() -> None:
    shelf = Shelf(size=3)
    await asyncio.gather(*shelf.begin("a", "b", "c", "d"))
    assert shelf.calls == [(0.0, ["a", "b", "c"]), (SPACING, ["d"])]


@in_virtual_time
async def test_requests_that_come_one_by_one_share_calls_too() -> None:
    shelf, asked = Shelf(), []
    for number in range(50):
        asked += shelf.begin(str(number))
        await asyncio.sleep(0.2)
    await asyncio.gather(*asked)
    assert len(shelf.calls) <= 10 / SPACING + 1
    begun = [at for at, _ in shelf.calls]
    assert all(after - before >= SPACING - 1e-9 for before, after in pairwise(begun))


@in_virtual_time
async def test_after_a_quiet_moment_a_request_does_not_wait_for_the_spacing() -> None:
    shelf = Shelf()
    await asyncio.gather(*shelf.begin("a"))
    await asyncio.sleep(SPACING)
    before = now()
    await asyncio.gather(*shelf.begin("b"))
    assert shelf.calls[1][0] == pytest.approx(before + SOON)


@in_virtual_time
async def test_an_error_reaches_each_as_its_own() -> None:
    shelf = Shelf()
    shelf.error = CloudError("RequestLimitExceeded", "slowly", retryable=True)
    errors = await asyncio.gather(*shelf.begin("a", "b"), return_exceptions=True)
    assert [str(error) for error in errors] == ["RequestLimitExceeded: slowly"] * 2
    assert len({id(error) for error in (*errors, shelf.error)}) == 3
    for error in errors:
        assert isinstance(error, CloudError)
        assert error.retryable
    shelf.error = None
    assert await shelf.batcher.get("a") is not None


@in_virtual_time
async def test_what_was_not_expected_reaches_each_too() -> None:
    shelf = Shelf()
    shelf.error = ZeroDivisionError()
    errors = await asyncio.gather(*shelf.begin("a", "b"), return_exceptions=True)
    assert [type(error) for error in errors] == [ZeroDivisionError] * 2


@pytest.mark.parametrize("after", [SOON / 2, SOON * 2])
@in_virtual_time
async def test_a_cancelled_request_does_not_cancel_the_others(after: float) -> None:
    shelf = Shelf()
    cancelled, stays = shelf.begin("a", "b")
    await asyncio.sleep(after)
    cancelled.cancel()
    assert await stays == SOON
    assert cancelled.cancelled()

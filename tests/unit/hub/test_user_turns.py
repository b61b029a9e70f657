"""Turns of one user come one after the other, and hold up nobody else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from ec2spawner.core.concurrency_limit import TooManyAtOnce
from ec2spawner.hub.app.event_loop.user_turns import Turn, UserTurns


async def take_soon(turns: UserTurns, user: str) -> asyncio.Task[Turn]:
    """The turn, or the wait for it."""
    task = asyncio.create_task(turns.take(user))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_one_user_with_many_calls_leaves_the_other_places_to_others() -> None:
    turns = UserTurns(at_once=2, max_waiting=5)
    flood = [await take_soon(turns, "ann") for _ in range(6)]
    bob = await take_soon(turns, "bob")
    eve = await take_soon(turns, "eve")
    assert [task.done() for task in (*flood[:2], bob, eve)] == [True, False, True, False]
    flood[0].result().give_back()
    flood[0].result().give_back()  # changes nothing
    await asyncio.sleep(0.0)
    bob.result().give_back()
    await asyncio.wait_for(eve, 1)
    await asyncio.wait_for(flood[1], 1)
    assert not flood[2].done()
    for task in flood[2:]:
        task.cancel()


async def test_calls_that_wait_have_a_bound() -> None:
    turns = UserTurns(at_once=2, max_waiting=1)
    first, second = await take_soon(turns, "ann"), await take_soon(turns, "ann")
    with pytest.raises(TooManyAtOnce):
        await turns.take("ann")
    first.result().give_back()
    (await second).give_back()
    async with turns.turn("ann"):
        pass


async def test_one_that_gives_up_holds_nobody_up() -> None:
    turns = UserTurns(at_once=1, max_waiting=5)
    ann = await take_soon(turns, "ann")
    second, bob, eve = [await take_soon(turns, name) for name in ("ann", "bob", "eve")]
    for task in (second, bob):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    ann.result().give_back()
    (await asyncio.wait_for(eve, 1)).give_back()
    (await asyncio.wait_for(turns.take("ann"), 1)).give_back()

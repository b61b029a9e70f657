"""Work in moto's thread, and what becomes of those who wait for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ec2spawner.embedded.api.moto_backend import Moto


async def test_a_cancellation_at_the_end_of_the_work_is_not_lost() -> None:
    """As of the transitions of instances when the embedded EC2 stops: one that missed it would
    hold up the stop for as long as a terminated instance is listed."""
    moto = Moto("123456789012", "us-east-1")
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(60)

    waiting = asyncio.ensure_future(moto.run(work))
    await asyncio.to_thread(begun.wait, 60)
    may_end.set()
    # The thread is free again: the event loop has the result queued, and has not run its callback.
    moto._thread.submit(int).result(60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await moto.close()

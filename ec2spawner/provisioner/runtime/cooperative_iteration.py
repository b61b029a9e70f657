"""Iteration over thousands of items that leaves the event loop to other tasks in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

BATCH: Final = 25
"""Items between two yields to the event loop: few enough that a batch takes some milliseconds where
an item takes 0.2 ms, such as a lease that is summed up anew."""


async def cooperatively(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a yield to the event loop before each that follows a full batch.

    Anything may happen at such a yield: `items` has to be a snapshot, and what was true of an item
    when it was made may no longer be.
    """
    for number, item in enumerate(items):
        if number and number % BATCH == 0:
            await asyncio.sleep(0)
        yield item

"""One call in flight for all who want its result at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class SharedCall(Generic[T]):
    """A call whose result serves all who asked before it began: fifty who ask at once cause two."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended = 0
        """The number of the newest call that has ended."""
        self._result: T | Exception | None = None

    async def __call__(self) -> T:
        """The result of a call that began after it was asked for here. Raises what that raises."""
        asked = self._begun
        async with self._turn:
            if self._ended <= asked:
                self._begun += 1
                number = self._begun
                try:
                    self._result = await self._call()
                except Exception as error:
                    self._result = error  # for all: each would repeat a call that EC2 throttles
                self._ended = number
            if isinstance(self._result, Exception):
                raise self._result
            return cast("T", self._result)

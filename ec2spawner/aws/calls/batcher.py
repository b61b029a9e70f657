"""Requests of many tasks that one call can answer.

Windows are those of Karpenter's batchers for EC2 (`pkg/batcher` of its AWS provider): a request
waits for others 100 ms, or a second where that delays nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, TypeVar

from ...provisioner.model.cloud.cloud import CloudError

SOON: Final = 0.1
"""Seconds that a request waits for others if somebody waits for its answer."""

LATER: Final = 1.0
"""Seconds that a request waits for others if it is one of a series, such as a poll."""

SPACING: Final = 0.5
"""Seconds from one call to the next, unless it is full. Starts at once come one by one where they
have waited for tokens, 0.1 to 0.2 s apart: each would have a call of its own."""

V = TypeVar("V")

Ask = Callable[[Sequence[str]], Awaitable[Mapping[str, V]]]
"""Keys, each once -> what the call answers about them; a key that is absent has no answer."""


class Batcher(Generic[V]):
    """Collects requests, and makes one call for `size` keys at most."""

    def __init__(self, ask: Ask[V], size: int) -> None:
        self._ask = ask
        self._size = size
        self._open: _Batch[V] | None = None
        """What the next request joins: its call has not begun, so no answer is older than a
        request."""
        self._begun_at = -inf
        """When the last call began, on the loop's clock."""
        self._calls: set[asyncio.Task[None]] = set()

    async def get(self, key: str, within: float = SOON) -> V | None:
        """What the call answers about the key. It begins within so many seconds, or `SPACING` after
        the call before it.

        Raises `CloudError`, of its own, where the call does. Others do not notice a cancellation.
        """
        batch = self._open
        if batch is None:
            batch = self._open = _Batch()
        batch.keys[key] = None
        self._schedule(batch, within)
        answer = await asyncio.shield(batch.answer)
        if isinstance(answer, CloudError):
            raise CloudError(answer.code, answer.message, retryable=answer.retryable)
        return answer.get(key)

    def _schedule(self, batch: _Batch[V], within: float) -> None:
        """The call begins when the first of its requests can wait no longer, or it is full."""
        loop = asyncio.get_running_loop()
        if len(batch.keys) >= self._size:
            self._begin(batch)
            return
        at = max(loop.time() + within, self._begun_at + SPACING)
        if batch.timer is None or at < batch.timer.when():
            if batch.timer is not None:
                batch.timer.cancel()
            batch.timer = loop.call_at(at, self._begin, batch)

    def _begin(self, batch: _Batch[V]) -> None:
        self._open = None
        self._begun_at = asyncio.get_running_loop().time()
        if batch.timer is not None:
            batch.timer.cancel()
        call = asyncio.ensure_future(self._call(batch))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, batch: _Batch[V]) -> None:
        try:
            batch.answer.set_result(await self._ask(list(batch.keys)))
        except CloudError as error:
            batch.answer.set_result(error)
        except Exception as error:
            batch.answer.set_exception(error)
        finally:
            batch.answer.cancel()  # only where it has none: the loop is being closed


@dataclass(eq=False, slots=True)
class _Batch(Generic[V]):
    keys: dict[str, None] = field(default_factory=dict)
    """In the order of the requests."""
    answer: asyncio.Future[Mapping[str, V] | CloudError] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    timer: asyncio.TimerHandle | None = None

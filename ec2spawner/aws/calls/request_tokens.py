"""Requests to EC2 wait here for their tokens, so that EC2 does not refuse them.

A refused request has cost a round trip and a back-off, and those of an account share its buckets:
whoever overdraws one fails for everybody. So the hub keeps its own buckets, with AWS's published
sizes and refills, and sends a request only when they have its tokens. First in, first out by
action: each has buckets of its own, so tags never delay a launch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ...core.ec2_api_limits import Charge, charges
from ...core.rate_limit import Rate, TokenBucket
from ...provisioner.model.cloud.cloud import CloudError
from . import metrics

SHARE: Final = 0.9
"""Of each bucket's size, what the hub uses. Others call EC2 under the same account: a second hub,
Terraform, the console. The rest is theirs, and covers what the hub cannot see: EC2's bucket refills
from a request's arrival, ours from its sending, up to a second earlier. The refill is used in full:
a burst takes seconds, and who waits is a person."""

CONCURRENT: Final = 8
"""Requests of one action that are sent at a time: half of the client's threads, so that a hundred
tags do not keep a launch from getting one."""


class TurnTooLateError(CloudError):
    """A request was not sent, because its turn would not come in time: EC2 has refused nothing.

    Callers treat it as a throttle: it is retryable, with the code of one.
    """

    def __init__(self, message: str) -> None:
        super().__init__("RequestLimitExceeded", message, retryable=True)


class RequestTokens:
    """The buckets of one account and region, as far as this hub knows them."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        """By the name of the request bucket."""

    @asynccontextmanager
    async def turn(
        self, action: str, parameters: Mapping[str, Any], latest: float
    ) -> AsyncIterator[None]:
        """Wait for the tokens of one request, and send it inside.

        Raises `TurnTooLateError` at once where they will not be there by `latest`, on the loop's
        clock. Nothing was sent then.
        """
        taken = tuple(map(_of_our_share, charges(action, parameters)))
        queue = self._queue(taken)
        seconds = queue.wait_seconds(taken)
        now = asyncio.get_running_loop().time()
        if now + seconds > latest:
            before = f"{len(queue)} earlier calls wait, and " if len(queue) else ""
            raise TurnTooLateError(
                f"{action} was not sent, to stay within EC2's rate limit: {before}its turn would "
                f"come in {seconds:.0f} s"
            )
        await queue.enter(taken)
        metrics.QUEUED.labels(action).inc(asyncio.get_running_loop().time() - now)
        try:
            yield
        finally:
            queue.leave()

    def throttled(self, action: str, parameters: Mapping[str, Any]) -> None:
        """EC2 has refused a request by its rate limit: it knows of calls that we do not."""
        taken = tuple(map(_of_our_share, charges(action, parameters)))
        self._queue(taken).empty(taken)

    def _queue(self, taken: tuple[Charge, ...]) -> _Queue:
        return self._queues.setdefault(taken[0].bucket, _Queue())


def _of_our_share(charge: Charge) -> Charge:
    rate = Rate(int(charge.rate.burst * SHARE), charge.rate.per_second)
    # What takes more than a bucket holds goes when that is full.
    return Charge(charge.bucket, rate, min(charge.tokens, rate.burst))


@dataclass(eq=False, slots=True)
class _Waiting:
    taken: tuple[Charge, ...]
    admitted: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class _Queue:
    """The requests of one action that wait, oldest first, and its buckets."""

    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _sending: int = 0
    _timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_seconds(self, taken: tuple[Charge, ...]) -> float:
        """Until the turn of one more request comes, by the tokens of those before it."""
        now = asyncio.get_running_loop().time()
        before = [charge for waiting in self._waiting for charge in waiting.taken]
        return max(
            self._bucket(charge).wait_seconds(
                now, charge.tokens + sum(x.tokens for x in before if x.bucket == charge.bucket)
            )
            for charge in taken
        )

    async def enter(self, taken: tuple[Charge, ...]) -> None:
        """Return when it is its turn; then `leave` once it is answered."""
        waiting = _Waiting(taken, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting.admitted
        except asyncio.CancelledError:
            if waiting.admitted.cancelled():
                with contextlib.suppress(ValueError):  # `_admit` came first
                    self._waiting.remove(waiting)
                self._admit()
            else:  # admitted at the same moment, and not sent
                now = asyncio.get_running_loop().time()
                for charge in taken:
                    self._bucket(charge).give_back(now, charge.tokens)
                self.leave()
            raise

    def leave(self) -> None:
        """It is answered, or given up."""
        self._sending -= 1
        self._admit()

    def empty(self, taken: tuple[Charge, ...]) -> None:
        """Nothing is left in these buckets."""
        now = asyncio.get_running_loop().time()
        for charge in taken:
            self._bucket(charge).empty(now)

    def _admit(self) -> None:
        """Let as many go, in their order, as there are tokens for."""
        now = asyncio.get_running_loop().time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._sending < CONCURRENT:
            if self._waiting[0].admitted.cancelled():
                self._waiting.popleft()
                continue
            taken = self._waiting[0].taken
            if seconds := max(self._bucket(x).wait_seconds(now, x.tokens) for x in taken):
                self._timer = asyncio.get_running_loop().call_later(seconds, self._admit)
                return
            for charge in taken:
                self._bucket(charge).take(now, charge.tokens)
            self._sending += 1
            self._waiting.popleft().admitted.set_result(None)

    def _bucket(self, charge: Charge) -> TokenBucket:
        return self._buckets.setdefault(charge.bucket, TokenBucket(charge.rate))

"""Work that takes much of the hub's memory or time, a few users at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from ....core.concurrency_limit import TooManyAtOnce


class UserTurns:
    """Turns of one user come one after the other, in order; those of some users at the same time.

    A user who asks for many turns holds up nobody else: only one of them is in the line of all.
    Whoever takes a turn bounds how long it lasts.
    """

    def __init__(self, at_once: int, max_waiting: int) -> None:
        """`at_once` users have a turn at the same time, and `max_waiting` calls of each may wait
        for one."""
        self._places = asyncio.Semaphore(at_once)
        self._max_waiting = max_waiting
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._calls: Counter[Hashable] = Counter()
        """By user: the calls that have a turn or wait for one."""

    async def take(self, user: Hashable) -> Turn:
        """Wait for a turn; whoever has it gives it back. Raises `TooManyAtOnce`."""
        if self._calls[user] > self._max_waiting:
            raise TooManyAtOnce
        self._calls[user] += 1
        lock = self._locks.setdefault(user, asyncio.Lock())
        try:
            await lock.acquire()
            try:
                await self._places.acquire()
            except BaseException:
                lock.release()
                raise
        except BaseException:
            self._leave(user)
            raise
        return Turn(self, user)

    @asynccontextmanager
    async def turn(self, user: Hashable) -> AsyncIterator[None]:
        """Have a turn while the block runs. Raises `TooManyAtOnce`."""
        turn = await self.take(user)
        try:
            yield
        finally:
            turn.give_back()

    def _end(self, user: Hashable) -> None:
        self._places.release()
        self._locks[user].release()
        self._leave(user)

    def _leave(self, user: Hashable) -> None:
        self._calls[user] -= 1
        if not self._calls[user]:
            del self._calls[user], self._locks[user]


class Turn:
    """A turn that somebody has."""

    def __init__(self, turns: UserTurns, user: Hashable) -> None:
        self._turns = turns
        self._user = user
        self._is_over = False

    def give_back(self) -> None:
        """Let the next one have it; again, it changes nothing."""
        if not self._is_over:
            self._is_over = True
            self._turns._end(self._user)

"""Whether prices were asked for: who decides by them waits some seconds for the first answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

LONGEST_WAIT: Final = 10.0
"""Seconds for which a decision waits for the first prices of an instance type. EC2 usually answers
within one or two; where it does not, nobody waits as long as the call may take."""


class FirstReadings:
    """The instance types whose prices have not been asked for yet, or without an answer so far."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """By instance type: since when its first reading is due, on the event loop's clock."""
        self._done = asyncio.Event()
        """Set, and replaced, when some have been read."""

    def begin(self, instance_types: Iterable[str]) -> None:
        """The first reading of these is due from now on."""
        now = asyncio.get_running_loop().time()
        for name in instance_types:
            self._since.setdefault(name, now)

    def end(self, instance_types: Iterable[str]) -> None:
        """These were asked for, whatever the answer was."""
        for name in instance_types:
            self._since.pop(name, None)
        done, self._done = self._done, asyncio.Event()
        done.set()

    def awaited(self, instance_types: Collection[str] | None = None) -> bool:
        """Whether a decision about these types, or about any, is to wait."""
        names = self._since.keys() if instance_types is None else instance_types
        latest = asyncio.get_running_loop().time() - LONGEST_WAIT
        return any(self._since.get(name, latest) > latest for name in names)

    async def wait(self, instance_types: Collection[str]) -> None:
        """Return once no decision about these types is to wait any more."""
        while self.awaited(instance_types):
            begun = [self._since[name] for name in instance_types if name in self._since]
            try:
                async with asyncio.timeout_at(max(begun) + LONGEST_WAIT):
                    await self._done.wait()
            except TimeoutError:
                return

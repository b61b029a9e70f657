"""How many calls of one key may be in progress at a time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class TooManyAtOnce(Exception):
    """As many calls of this key as may be are in progress."""


@dataclass(slots=True)
class ConcurrencyLimit:
    """One limit for many keys."""

    at_once: int
    _held: Counter[Hashable] = field(default_factory=Counter)

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Count one call of the key as in progress until the block ends. Raises `TooManyAtOnce`."""
        if self._held[key] >= self.at_once:
            raise TooManyAtOnce
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]

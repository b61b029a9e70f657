"""How many calls, of one key and of all, may be in progress at a time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .fair_share import share


class TooManyAtOnce(Exception):
    """As many calls as may be are in progress."""


@dataclass(slots=True)
class ConcurrencyLimit:
    """One limit for many keys."""

    at_once: int
    """Calls of one key."""
    in_all: int
    """Calls of all keys: each has a share of these, see `core.fair_share`."""
    _held: Counter[Hashable] = field(default_factory=Counter)

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Count one call of the key as in progress until the block ends. Raises `TooManyAtOnce`."""
        held = self._held[key]
        if held >= min(self.at_once, share(self.in_all, self._held.total() - held)):
            raise TooManyAtOnce
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]

"""Exponential back-off with jitter: how long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Pauses in seconds that double from `first` up to `longest`.

    Each is shortened by a random part of up to `jitter` (0 to 1): a hundred agents that lost one
    hub must not come back at the same moment.
    """

    first: float = 0.25
    longest: float = 15.0
    jitter: float = 0.5
    _failures: int = 0

    def next(self) -> float:
        """The pause after one more failure, in seconds."""
        self._failures += 1
        return self.pause(self._failures)

    def pause(self, failures: int) -> float:
        """The pause after `failures` failures in a row, 1 or more, in seconds."""
        pause = min(self.first * 2.0 ** min(failures - 1, 30), self.longest)
        return pause * random.uniform(1 - self.jitter, 1)

    def reset(self) -> None:
        """Begin again with `first`."""
        self._failures = 0

"""How long to wait before asking again."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Waits that double up to `longest`, each shortened by a random part of up to a half.

    A hundred agents that lost one hub must not come back in one instant. Seconds.
    """

    first: float = 0.25
    longest: float = 15.0
    _tries: int = 0

    def next(self) -> float:
        """Seconds until the next try. They double up to `longest`; up to half of them is jitter."""
        wait = min(self.first * 2.0 ** min(self._tries, 30), self.longest)
        self._tries += 1
        return wait * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start again at `first`: a call succeeded."""
        self._tries = 0

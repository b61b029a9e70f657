"""How long simulated instances boot: drawn from a published distribution. Pure.

Brev measured cold starts of GPU instances on EC2 (mean of its study): 25.8 s from the call to an
SSH login, of which 17.8 s from `pending` to `running` and 3.2 s from there until the system is up.
The rest is EC2's API and SSH's own. Only means are published; the shape is our assumption: no boot
is faster than two thirds of the mean, and what is above that is lognormal: one boot in twenty takes
more than 1.4 times the mean.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PENDING_SECONDS = 17.8
"""Mean from `pending` to `running`."""

SYSTEM_SECONDS = 3.2
"""Mean from `running` until the system is up and the agent starts."""

MEAN_SECONDS = PENDING_SECONDS + SYSTEM_SECONDS

FLOOR = 2 / 3
"""Share of the mean that every boot takes."""

SIGMA = 0.6
"""Of the lognormal part."""


@dataclass(frozen=True, slots=True)
class BootTimes:
    """Boots whose mean is `scale * MEAN_SECONDS`; `scale` 0 boots at once."""

    scale: float = 1.0

    @property
    def floor(self) -> float:
        """Seconds that every boot takes."""
        return self.scale * MEAN_SECONDS * FLOOR

    def draw_excess(self, chance: random.Random) -> float:
        """Seconds of one boot beyond the floor."""
        mean = self.scale * MEAN_SECONDS * (1 - FLOOR)
        return mean * chance.lognormvariate(-(SIGMA**2) / 2, SIGMA) if mean else 0.0

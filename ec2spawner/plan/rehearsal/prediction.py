"""What the plan predicts of a rehearsal: its cost before it begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..costs import Durations, Price

STOP_TIMEOUT: Final = 600.0
"""Seconds for the end of all servers and their instances: a GPU instance shuts down in minutes."""

USUAL_START: Final = 300.0
"""Seconds of a start, where the store knows none: a GPU instance with a large image."""

USUAL_STOP: Final = 60.0
"""Seconds until a server and its instance have ended, on average."""

MIN_BILLED: Final = 60.0
"""Seconds that EC2 bills at least."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of a rehearsal, with the most expensive market and zone of the plan."""

    usd: float | None
    """If all goes as usual; None without a price."""
    max_usd: float | None
    """If every start takes until the timeout, and every stop, too."""
    durations: Durations | None
    """Of past starts; None where no start is known."""


def prediction(
    number: int, timeout: float, found: Sequence[Price], usual: Durations | None
) -> Prediction:
    """Of so many servers, whose starts may take `timeout` seconds.

    The servers are stopped together, so each exists as long as the slowest start.
    """
    if not found:
        return Prediction(None, None, usual)
    price = max(each.usd_per_hour_elsewhere for each in found)
    slowest = USUAL_START if usual is None else usual.p95 or usual.median
    seconds = max(min(slowest, timeout) + USUAL_STOP, MIN_BILLED)
    each_second = number * price / 3600
    return Prediction(each_second * seconds, each_second * (timeout + STOP_TIMEOUT), usual)

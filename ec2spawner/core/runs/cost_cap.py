"""What a run may cost: which instances it can afford, and when it has to end. Pure."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 180.0
"""An instance is bought only if the run can afford so long besides its stop: the boot, and the
first minute, which EC2 charges whole."""

PASS_SECONDS: Final = 10.0
"""Between two passes that compare cost and cap, with some to spare: a pass comes every 5 s."""


def affordable_usd_per_hour(max_usd: float, spent_usd: float, stop_seconds: float) -> float:
    """The dearest instance that a run can still afford, in USD/hour; 0 for none. It may take
    `stop_seconds` to stop."""
    seconds = FIRST_SECONDS + PASS_SECONDS + stop_seconds
    return max(max_usd - spent_usd, 0.0) * 3600 / seconds


def is_reached(max_usd: float, spent_usd: float, usd_per_hour: float, stop_seconds: float) -> bool:
    """Whether a run that continues until the next pass, and then stops within `stop_seconds`, would
    cost more than its cap."""
    seconds = PASS_SECONDS + stop_seconds
    return spent_usd + usd_per_hour * seconds / 3600 >= max_usd

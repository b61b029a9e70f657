"""`cost.now()`: what this server has cost so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from . import agent


@dataclass(frozen=True, slots=True)
class Now:
    """Amounts in USD, with the machine's disks and public address. None is unknown, never 0."""

    usd: float | None
    """Of this server since its user started it, at `as_of`."""
    usd_per_hour: float | None
    """Price now."""
    estimate: bool
    """True unless the figures come from a bill."""
    market: str
    """`spot` or `on-demand`; empty where unknown."""
    as_of: datetime
    """UTC."""
    today_usd: float | None
    """Of all servers of this user since midnight in the hub's time zone."""
    month_usd: float | None
    """The same since the first of the month."""
    saved_usd: float | None
    """What on-demand would have cost more."""
    on_demand_usd_per_hour: float | None
    price_source: str
    """For people."""


def now() -> Now | None:
    """What this server has cost so far; None where there is no agent to ask, or it cannot say.

    Takes a millisecond, at most half a second; the agent is read at most once a second.
    """
    cost, at = agent.read().cost, agent.clock()
    if cost is None:
        return None
    # Added since the hub's figure; nothing within the first minute, which is billed whole.
    seconds = max(at - cost.as_of.timestamp(), 0.0)
    since = None if cost.usd_per_hour is None else cost.usd_per_hour * seconds / 3600

    def grown(usd: float | None) -> float | None:
        return None if usd is None else usd + (since or 0.0)

    return Now(
        usd=grown(cost.usd),
        usd_per_hour=cost.usd_per_hour,
        estimate=cost.estimate,
        market=cost.market.value if cost.market else "",
        as_of=agent.instant(at),
        today_usd=grown(cost.today_usd),
        month_usd=grown(cost.month_usd),
        saved_usd=cost.saved_usd,
        on_demand_usd_per_hour=cost.on_demand_usd_per_hour,
        price_source=cost.price_source,
    )

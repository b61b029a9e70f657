"""`cost.now()`: what this server has cost so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from . import agent

if TYPE_CHECKING:
    from ..wire import Cost, WorkersCost


@dataclass(frozen=True, slots=True)
class Now:
    """Amounts in USD, with the machine's disks and public address. None is unknown, never 0."""

    usd: float | None
    """Cost of this server and its workers since its user started it, at `as_of`."""
    usd_per_hour: float | None
    """Price now, of all together."""
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
    workers: int
    """Workers of its cluster that are paid now."""
    workers_usd: float | None
    """What of `usd` all its workers have cost, those that have ended included."""
    workers_usd_per_hour: float | None
    """What of `usd_per_hour` its workers cost."""


def now() -> Now | None:
    """What this server has cost so far; None where there is no agent to ask, or it cannot say.

    Takes a millisecond, at most half a second; the agent is read at most once a second.
    """
    reading, at = agent.read(), agent.clock()
    cost = reading.cost
    if cost is None:
        return None
    workers = cost.workers
    of_server = _added(cost, at)
    of_workers = 0.0 if workers is None else _added(workers, at)
    workers_usd = None if workers is None else _sum(workers.usd, of_workers)
    usd = _sum(cost.usd, of_server)

    def grown(usd: float | None) -> float | None:
        return _sum(usd, of_server + of_workers)

    return Now(
        usd=usd if workers is None else _sum(usd, workers_usd),
        usd_per_hour=reading.usd_per_hour,
        estimate=cost.estimate,
        market=cost.market.value if cost.market else "",
        as_of=agent.instant(at),
        today_usd=grown(cost.today_usd),
        month_usd=grown(cost.month_usd),
        saved_usd=cost.saved_usd,
        on_demand_usd_per_hour=cost.on_demand_usd_per_hour,
        price_source=cost.price_source,
        workers=0 if workers is None else workers.running,
        workers_usd=0.0 if workers is None else workers_usd,
        workers_usd_per_hour=0.0 if workers is None else workers.usd_per_hour,
    )


def _added(cost: Cost | WorkersCost, at: float) -> float:
    """Since the hub's figure; nothing within the first minute, which is billed whole."""
    return (cost.usd_per_hour or 0.0) * max(at - cost.as_of.timestamp(), 0.0) / 3600


def _sum(usd: float | None, more: float | None) -> float | None:
    return None if usd is None or more is None else usd + more

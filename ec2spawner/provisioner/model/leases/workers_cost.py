"""What the workers of a server cost, those that have ended included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from ....core.ledger import exact
from ....core.ledger.charges import Rate, rate
from ....core.ledger.cost import known_nano_usd
from ....core.ledger.segments import paid_until
from ....core.ledger.session_cost import SessionCost
from ....wire import WorkersCost
from .cluster import Cluster
from .lease import OPEN, Lease


def with_ended(cluster: Cluster, worker: Lease, now: datetime) -> Cluster:
    """The cluster with the cost of a worker that has ended."""
    cost, unknown = known_nano_usd(worker.segments, now)
    return replace(
        cluster,
        ended_nano_usd=cluster.ended_nano_usd + cost,
        ended_unknown=cluster.ended_unknown + unknown,
    )


def nano_usd(cluster: Cluster | None, workers: Iterable[Lease], now: datetime) -> tuple[int, int]:
    """Return the cost so far of all workers of one lease, as far as prices are known, in 1e-9 USD,
    and how many prices are unknown."""
    if cluster is None:
        return 0, 0
    cost, unknown = cluster.ended_nano_usd, cluster.ended_unknown
    for each in workers:
        if each.state in OPEN:
            more, unknown_prices = known_nano_usd(each.segments, now)
            cost, unknown = cost + more, unknown + unknown_prices
    return cost, unknown


def workers_cost(
    cluster: Cluster | None, workers: Sequence[Lease], now: datetime, earlier: SessionCost
) -> WorkersCost | None:
    """What all workers have cost and cost now, with those of the instances that the server has
    left; None where there are none and none has cost anything."""
    present = [each for each in workers if each.state in OPEN]
    paid = [each for each in present if each.segments and each.segments[-1].end is None]
    as_of = max((paid_until(each.segments, now) for each in paid), default=now)
    cost, unknown = nano_usd(cluster, workers, as_of)
    cost, unknown = cost + earlier.workers_nano_usd, unknown + earlier.workers_unknown
    if not (present or cost or unknown):
        return None
    usd, rates = exact.usd(cost), [rate(each.segments[-1], now) for each in paid]
    return WorkersCost(
        count=len(present),
        running=len(paid),
        usd=None if unknown else usd,
        known_usd=usd if cost or not unknown else None,
        usd_per_hour=_known_sum(rates) if all(x.usd_per_hour is not None for x in rates) else None,
        known_usd_per_hour=_known_sum(rates),
        as_of=as_of,
    )


def _known_sum(rates: Iterable[Rate]) -> float | None:
    """Of what is known of them, in USD/hour; None where there are some and nothing is known."""
    rates = list(rates)
    known = [each.known_usd_per_hour for each in rates if each.known_usd_per_hour is not None]
    return sum(known) if known or not rates else None

"""What the workers of a server cost, those that have ended included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ....core.ledger import exact
from ....core.ledger.charges import Rate, rate
from ....core.ledger.cost import known_nano_usd
from ....core.ledger.segments import paid_until
from ....core.ledger.session_cost import SessionCost
from ....wire import WorkersCost
from .lease import OPEN, Lease


def nano_usd(workers: Iterable[Lease], now: datetime) -> tuple[int, int]:
    """Return the cost so far of workers, as far as prices are known, in 1e-9 USD, and how many
    prices are unknown."""
    costs = [known_nano_usd(each.segments, now) for each in workers]
    return sum(known for known, _ in costs), sum(unknown for _, unknown in costs)


def workers_cost(
    workers: Sequence[Lease], now: datetime, earlier: SessionCost
) -> WorkersCost | None:
    """What all workers of a server have cost and cost now, with those that are not in memory as
    workers of its present lease; None where there are none and none has cost anything."""
    present = [each for each in workers if each.state in OPEN]
    paid = [each for each in present if each.segments and each.segments[-1].end is None]
    as_of = max((paid_until(each.segments, now) for each in paid), default=now)
    cost, unknown = nano_usd(workers, as_of)
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
    """Sum of the known prices in USD/hour; None where there are some and none is known."""
    rates = list(rates)
    known = [each.known_usd_per_hour for each in rates if each.known_usd_per_hour is not None]
    return sum(known) if known or not rates else None

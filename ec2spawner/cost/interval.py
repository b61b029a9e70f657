"""The cost of an interval: the difference of two costs, not a rate times a duration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import agent
from .agent import Reading
from .formatting import counted_workers, kind_of_amounts, lasted, money

if TYPE_CHECKING:
    from ..wire import WorkersCost


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, and the agent's reading for it."""

    at: float
    reading: Reading

    @classmethod
    def now(cls) -> Moment:
        """Now; reads from the agent, which takes at most half a second."""
        # Read first, so that the reading's own time is not part of the interval.
        reading = agent.read()
        return cls(agent.clock(), reading)


@dataclass(frozen=True, slots=True)
class Spent:
    """Duration and cost of an interval."""

    seconds: float
    usd: float | None
    """None is unknown."""
    last: Reading

    def words(self) -> str:
        """`$0.012 in 1 min 23 s`, or the time alone."""
        time = lasted(self.seconds)
        return time if self.usd is None else f"{money(self.usd)} in {time}"

    def remark(self) -> str:
        """Accuracy and price, `estimate in USD; $0.53/h, spot`, or why there is no amount."""
        if self.usd is None:
            return f"cost unknown: {self.last.why}" if self.last.why else "cost unknown"
        cost = self.last.cost
        said = [kind_of_amounts(cost is None or cost.estimate)]
        if cost is not None and cost.usd_per_hour is not None:
            market = f", {cost.market.value}" if cost.market else ""
            said.append(f"{money(cost.usd_per_hour)}/h{market}{_workers_price(cost.workers)}")
        return "; ".join(said)


def between(began: Moment, ended: Moment) -> Spent:
    """The difference of both costs if they are known, so that a price that changed meanwhile counts
    from then on. Otherwise the known rate times the duration."""
    seconds = max(ended.at - began.at, 0.0)
    before, after = began.reading.usd_at(began.at), ended.reading.usd_at(ended.at)
    if before is not None and after is not None:
        return Spent(seconds, max(after - before, 0.0), ended.reading)
    for reading in (ended.reading, began.reading):
        if reading.usd_per_hour is not None:
            return Spent(seconds, reading.usd_per_hour * seconds / 3600, reading)
    return Spent(seconds, None, ended.reading)


def _workers_price(workers: WorkersCost | None) -> str:
    """` + 2 workers $1.06/h`; empty where none is paid."""
    if workers is None or not workers.running or workers.usd_per_hour is None:
        return ""
    return f" + {counted_workers(workers.running)} {money(workers.usd_per_hour)}/h"

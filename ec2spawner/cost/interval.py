"""A stretch of time and what it has cost: the difference of two bills, not a rate times a time."""

from __future__ import annotations

from dataclasses import dataclass

from . import agent
from .agent import Reading
from .formatting import kind_of_amounts, lasted, money


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, and what the agent said about then."""

    at: float
    reading: Reading

    @classmethod
    def now(cls) -> Moment:
        """The present; asks the agent, which takes half a second at most."""
        # Asked first: what that takes is not the work's.
        reading = agent.read()
        return cls(agent.clock(), reading)


@dataclass(frozen=True, slots=True)
class Spent:
    """What has happened between two moments."""

    seconds: float
    usd: float | None
    """None is unknown."""
    last: Reading

    def words(self) -> str:
        """`$0.012 in 1 min 23 s`, or the time alone."""
        time = lasted(self.seconds)
        return time if self.usd is None else f"{money(self.usd)} in {time}"

    def remark(self) -> str:
        """What it is worth: `estimate in USD; $0.53/h, spot`, or why there is no amount."""
        if self.usd is None:
            return f"cost unknown: {self.last.why}" if self.last.why else "cost unknown"
        cost = self.last.cost
        said = [kind_of_amounts(cost is None or cost.estimate)]
        if cost is not None and cost.usd_per_hour is not None:
            market = f", {cost.market.value}" if cost.market else ""
            said.append(f"{money(cost.usd_per_hour)}/h{market}")
        return "; ".join(said)


def between(began: Moment, ended: Moment) -> Spent:
    """The difference of the bills where both are known, so that a price that changed in the middle
    counts from then on. Where only one is, its rate over the time."""
    seconds = max(ended.at - began.at, 0.0)
    before, after = began.reading.usd_at(began.at), ended.reading.usd_at(ended.at)
    if before is not None and after is not None:
        return Spent(seconds, max(after - before, 0.0), ended.reading)
    for reading in (ended.reading, began.reading):
        if reading.usd_per_hour is not None:
            return Spent(seconds, reading.usd_per_hour * seconds / 3600, reading)
    return Spent(seconds, None, ended.reading)

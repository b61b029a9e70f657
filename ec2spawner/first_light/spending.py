"""What the journey's instances have cost so far, from listings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..core.ledger.cost import usd
from ..core.ledger.segments import Segment
from ..provisioner.model.cloud.instance import GONE, Instance


@dataclass(slots=True)
class Spending:
    """The time of every instance that a listing has shown, at its price."""

    segments: dict[str, Segment] = field(default_factory=dict)
    """By instance id."""

    def note(
        self, listed: Iterable[Instance], now: datetime, price: Callable[[Instance], float]
    ) -> None:
        """Take in a listing of the instant `now`, UTC; `price` gives USD/hour, once for each
        instance."""
        for instance in listed:
            known = self.segments.get(instance.instance_id) or Segment(
                instance.instance_id, instance.market, price(instance), instance.launched_at
            )
            if instance.state in GONE and known.end is None:
                known = replace(known, end=now)
            self.segments[instance.instance_id] = known

    def usd(self, now: datetime) -> float:
        """All of it at `now`, USD: an estimate."""
        return usd(self.segments.values(), now) or 0.0

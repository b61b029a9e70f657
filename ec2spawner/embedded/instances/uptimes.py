"""How long instances have run: the simulation's own record, beside what its listings still show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ..market.capacity import Offer

KEPT: Final = 10_000
"""Newest uptimes that are remembered."""


@dataclass(slots=True)
class Uptime:
    """An instance from a launch or start until it began to stop or terminate. Instants in UTC."""

    instance_id: str
    offer: Offer
    since: datetime
    until: datetime | None = None
    """None while it runs."""
    reason: str = ""
    """EC2's code of its end, such as `Server.SpotInstanceTermination`."""


class Uptimes:
    """Those of all instances, in the order in which they began."""

    def __init__(self) -> None:
        self._all: deque[Uptime] = deque(maxlen=KEPT)
        self._present: dict[str, Uptime] = {}
        """By instance id."""

    def __iter__(self) -> Iterator[Uptime]:
        return iter(self._all)

    def begin(self, instance_id: str, offer: Offer) -> None:
        """An instance was launched, or a stopped one started."""
        self._present[instance_id] = Uptime(instance_id, offer, datetime.now(UTC))
        self._all.append(self._present[instance_id])

    def end(self, instance_id: str, reason: str) -> None:
        """It begins to stop or terminate. Does nothing for one that is stopped."""
        if (ended := self._present.pop(instance_id, None)) is not None:
            ended.until, ended.reason = datetime.now(UTC), reason

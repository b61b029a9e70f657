"""Time in which an instance served no lease, and what it costs then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import Cause
from ...core.ledger.instance_end import close_at_end
from ...core.ledger.lease_costs import HUBS, Account
from ...core.ledger.segments import OverheadKey, Segment
from ..model.cloud.instance import Instance
from ..offers.prices import PriceCache
from ..state.state import State

Whose = tuple[Cause, Account]

UNKNOWN: Final = (Cause.UNASSIGNED, HUBS)
"""Cause of time before the first lease, where this process knows no more: what an earlier one has
stored holds then."""


@dataclass(frozen=True, slots=True)
class Period:
    """Time in which an instance served no lease, and what it is stored under."""

    key: str
    """See `overhead_key`."""
    segments: Sequence[Segment]
    """At least one, by the prices that are known."""
    whose: Whose = UNKNOWN
    """Why, and who pays."""
    instance: Instance | None = None
    """None where EC2 no longer lists it."""
    kept: Kept | None = None
    is_all: bool = False
    """Whether the instance has ended and never served a lease."""
    runs_on: bool = False
    """Whether the instance still runs so. The stored segment has no end then: a later hub to which
    EC2 does not list it any more knows by that that it had not ended."""

    @property
    def names(self) -> OverheadKey:
        """Key under which its lines are stored."""
        return self.segments[0].instance_id, self.key

    @property
    def about(self) -> str:
        """For the write-behind queue: one subject for each key, so that the latest write of a key
        is the one that is repeated."""
        return f"overhead of {self.segments[0].instance_id} since {self.key}"


def segments_of(
    state: State,
    prices: PriceCache,
    instance: Instance,
    start: datetime,
    end: datetime,
    kept: Kept | None = None,
) -> tuple[Segment, ...]:
    """Its time, ended when EC2 ended it, or at `end`, at the prices that were in force."""
    address_usd = prices.shown_address_usd_per_hour(instance)
    running = replace(prices.segment(instance, start), address_usd_per_hour=address_usd)
    ended = state.instances.end_of(instance)
    closed = close_at_end([beside_disks(running, kept)], max(end, start), ended)
    return prices.in_force(closed)


def beside_disks(segment: Segment, kept: Kept | None) -> Segment:
    """The segment without what `Overhead.of_disks` charges."""
    is_counted = kept is not None and kept.then == "stop"
    return replace(segment, disk_usd_per_month=0.0) if is_counted else segment

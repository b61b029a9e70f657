"""What the unused places of a capacity reservation cost, in periods of one number. Pure.

AWS charges a place the on-demand price of its instance type, used or not; a place of a Capacity
Block costs its part of what was paid for the block. What an instance in it costs is charged as of
any other instance; the rest is counted here, so that both add up to the price of the reservation.
Disks and addresses belong to instances only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...wire import Market
from .segments import Segment

LONGEST: Final = timedelta(days=1)
"""A period is written again while it lasts, with a line for each of its days."""

MAX_GAP: Final = timedelta(days=7)
"""Time without a hub that is counted at the next start, as the hub finds the reservation then. A
longer one is taken for time in which the hub was not configured with the reservation."""

MAX_ABSENCE: Final = timedelta(minutes=15)
"""While a hub runs, it counts a reservation every few minutes. A longer time in which it did not is
one in which the reservation was not the hub's, or could not be listed."""

_PREFIX: Final = "unused since "


@dataclass(frozen=True, slots=True)
class Places:
    """Unused places of one reservation, and what they cost."""

    count: int
    usd_per_hour: float | None
    """Of all of them; None is unknown."""
    on_demand_usd_per_hour: float | None
    """The same at the list price."""
    gpus: float
    """Of all of them."""


def priced(
    count: int,
    listed_usd_per_hour: float | None,
    gpus: float,
    discounted: Sequence[tuple[int, float]],
) -> Places:
    """`count` unused places of a type with this list price and number of GPUs.

    AWS applies discounts to unused places, too: `discounted` is for how many each discount has a
    place that running instances leave, and at which rate, in USD/hour.
    """
    usd, rest = 0.0, count
    for number, rate in discounted:
        covered = min(rest, number)
        usd, rest = usd + covered * rate, rest - covered
    known = not rest or listed_usd_per_hour is not None
    listed = None if listed_usd_per_hour is None else listed_usd_per_hour * count
    total = usd + rest * (listed_usd_per_hour or 0.0)
    return Places(count, total if known else None, listed, gpus * count)


def of_block(
    count: int, usd_per_hour: float | None, listed_usd_per_hour: float | None, gpus: float
) -> Places:
    """`count` unused places of a Capacity Block, at the price of one, in USD/hour. Discounts do not
    apply to them."""
    usd = None if usd_per_hour is None else count * usd_per_hour
    listed = None if listed_usd_per_hour is None else count * listed_usd_per_hour
    return Places(count, usd, listed, count * gpus)


@dataclass(frozen=True, slots=True)
class UnusedPeriod:
    """A time in which a reservation had the same unused places, at one price."""

    reservation_id: str
    instance_type: str
    zone: str
    since: datetime
    """UTC."""
    places: Places
    ends_at: datetime | None = None
    """When the reservation ends for sure, and with it what it costs, UTC; None is not known."""

    @property
    def key(self) -> str:
        """Names the period among the lines of overhead of its reservation; in order of time."""
        return f"{_PREFIX}{self.since.isoformat(timespec='microseconds')}"

    def segment(self, until: datetime) -> Segment:
        """The period up to `until`, UTC: as of an instance that costs what all places do."""
        until = until if self.ends_at is None else min(until, self.ends_at)
        return Segment(
            instance_id=self.reservation_id,
            market=Market.ON_DEMAND,
            usd_per_hour=self.places.usd_per_hour,
            start=self.since,
            end=max(until, self.since),
            instance_type=self.instance_type,
            zone=self.zone,
            gpus=self.places.gpus,
            on_demand_usd_per_hour=self.places.on_demand_usd_per_hour,
        )

    def followed_by(self, places: Places, now: datetime) -> UnusedPeriod:
        """This period, with a price that was unknown filled in; or the one that begins `now`,
        because the places or their price have changed, or this one has lasted a day."""
        learned = self.places.usd_per_hour is None and self.places.count == places.count
        if learned and places.usd_per_hour is not None:
            return replace(self, places=places)
        has_changed = places != self.places and not learned
        if has_changed or now - self.since >= LONGEST:
            return replace(self, since=max(now, self.since), places=places)
        return self


def resumes_block(counted: datetime | None, begins_at: datetime, now: datetime) -> datetime:
    """The same of a Capacity Block: it is paid from its beginning to its end, whether a hub runs or
    not."""
    return min(max(counted or begins_at, begins_at), now)


def counted_until(key: str, microseconds: int) -> datetime:
    """The end of the last period that was stored, from its key and how long it had lasted, UTC."""
    return datetime.fromisoformat(key.removeprefix(_PREFIX)) + timedelta(microseconds=microseconds)


def resumes(counted: datetime | None, ran_until: datetime | None, now: datetime) -> datetime:
    """Since when a hub counts a reservation that it did not count before `now`, UTC.

    `counted` is up to when it was counted, by this hub or an earlier one; `ran_until`, until when
    a hub is known to have run: the time between both is one in which the reservation was not used.
    None is unknown.
    """
    if counted is None or not timedelta() <= now - counted <= MAX_GAP:
        return now
    has_run_without = ran_until is not None and ran_until - counted > MAX_ABSENCE
    return now if has_run_without else counted

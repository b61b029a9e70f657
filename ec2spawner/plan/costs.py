"""What a class costs, with and without instances that wait for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Final

from ..core.pool.forecast import MARGIN
from ..core.pricing.resource_prices import HOURS_PER_MONTH
from ..wire import Market
from .facts import Facts, Wanted

MIN_STARTS: Final = 5
"""Past starts from which a 95th percentile says more than the longest of them."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of one server in one market, in USD/hour with its disk and address."""

    market: Market
    instance_type: str
    zone: str
    """The cheapest; empty where all cost the same."""
    usd_per_hour: float
    usd_per_hour_elsewhere: float
    """The same type in the most expensive zone: a whole class seldom fits into one."""

    def usd(self, wanted: Wanted) -> tuple[float, float]:
        """For the whole class and its time: in the cheapest zone, and in the most expensive."""
        hours = wanted.users * wanted.hours
        return self.usd_per_hour * hours, self.usd_per_hour_elsewhere * hours


def prices(facts: Facts, wanted: Wanted) -> tuple[Price, ...]:
    """In each market of the profile whose price is known, in the profile's order."""
    found = (_price(market, facts) for market in wanted.profile.markets)
    return tuple(price for price in found if price is not None)


def _price(market: Market, facts: Facts) -> Price | None:
    extra = _beside(facts)
    if extra is None:
        return None
    if market is Market.ON_DEMAND:
        known = {kind.name: facts.on_demand.get(kind.name) for kind in facts.types}
        priced = {name: usd for name, usd in known.items() if usd is not None}
        if not priced:
            return None
        name = min(priced, key=lambda each: priced[each])
        return Price(market, name, "", priced[name] + extra, priced[name] + extra)
    offers = {
        (kind.name, zone): facts.spot[kind.name, zone]
        for kind in facts.types
        for zone in facts.offered.get(kind.name, ())
        if (kind.name, zone) in facts.spot
    }
    if not offers:
        return None
    name, zone = min(offers, key=lambda each: (offers[each], each))
    most = max(usd for (other, _), usd in offers.items() if other == name)
    return Price(market, name, zone, offers[name, zone] + extra, most + extra)


def _beside(facts: Facts) -> float | None:
    """The disk and the address of an instance, in USD/hour; None where one has no known price."""
    disk = facts.resources.disk_usd_per_month(facts.disk_gib)
    address = facts.resources.address_usd_per_hour if facts.public else 0.0
    return None if disk is None or address is None else disk / HOURS_PER_MONTH + address


@dataclass(frozen=True, slots=True)
class Durations:
    """Of past starts of the profile on fresh instances, in seconds."""

    number: int
    median: float
    p95: float | None
    """None where there are too few."""
    median_to_instance: float
    """Until a start had its booted instance: what the warm pool saves."""


def durations(facts: Facts) -> Durations | None:
    """None where no start is known."""
    if not facts.starts:
        return None
    whole = sorted((each.ready_at - each.requested_at).total_seconds() for each in facts.starts)
    waits = [(each.assigned_at - each.requested_at).total_seconds() for each in facts.starts]
    p95 = whole[ceil(0.95 * len(whole)) - 1] if len(whole) >= MIN_STARTS else None
    return Durations(len(whole), median(whole), p95, median(waits))


@dataclass(frozen=True, slots=True)
class PoolCost:
    """What it costs to have an instance ready for each user of the class."""

    usd: float
    """From a boot before the class begins until 15 minutes after."""
    saved_seconds: float
    """Of each start."""
    seconds: float
    """Of a start that is left."""
    usd_per_hour_saved: float
    """For each hour that one person would have waited."""
    instances: int
    """At once, at most: each one that is taken while the pool holds so many is replaced."""
    room_for: int | None
    """So many have quota and addresses; None is unknown."""


def pool_cost(
    found: Sequence[Price], usual: Durations | None, wanted: Wanted, room_for: int | None
) -> PoolCost | None:
    """In the profile's first market; None where its price or the usual time of a start is
    unknown."""
    price = next((each for each in found if each.market is wanted.profile.markets[0]), None)
    if price is None or usual is None:
        return None
    waiting = usual.median_to_instance + MARGIN.total_seconds()
    usd = price.usd_per_hour * wanted.users * waiting / 3600
    saved = usual.median_to_instance
    hours = max(wanted.users * saved / 3600, 1e-9)
    left = max(usual.median - saved, 0.0)
    return PoolCost(usd, saved, left, usd / hours, 2 * wanted.users, room_for)

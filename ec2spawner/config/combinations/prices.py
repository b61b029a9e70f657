"""Limits, caps and discounts beside what instances cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ... import data
from ...core.limits.admission import FIRST_HOUR
from ...core.profiles.profiles import InstanceType
from ...wire import Market
from ..entries.profile import Profile
from ..options import Options
from ..problem import Problem
from .limits import scopes

CHEAPEST_SPOT: Final = 0.1
"""Share of the list price, for unknown spot prices: AWS says that spot costs up to 90 % less."""

_ALL_MONEY: Final = ("usd_per_month", "usd_per_window", "credit_usd")


@dataclass(frozen=True, slots=True)
class KnownPrices:
    """The known prices of instances, in USD/hour. From what is absent nothing follows."""

    types: Mapping[str, Sequence[InstanceType]] = field(default_factory=dict)
    """Slug of a profile -> what its servers may be."""
    usd: Mapping[Market, Mapping[str, float]] = field(default_factory=dict)
    """Market -> instance type -> the lowest price; on demand the list price."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The cheapest start of a profile."""

    profile: Profile
    usd_per_hour: float


def bundled_prices(options: Options) -> KnownPrices:
    """Return the bundled prices: on-demand ones in their region only, and the least that spot costs
    beside them."""
    table = data.instance_types(options.region)
    types = {
        each.slug: options.instance_types(each)
        for each in options.profiles
        if all(name in table for name in each.instance_types)
    }
    if options.region != data.PRICES_REGION:
        return KnownPrices(types)
    on_demand = {
        name: kind.on_demand_usd_per_hour
        for name, kind in table.items()
        if kind.on_demand_usd_per_hour is not None
    }
    spot = {name: usd * CHEAPEST_SPOT for name, usd in on_demand.items()}
    return KnownPrices(types, {Market.ON_DEMAND: on_demand, Market.SPOT: spot})


def priced_problems(options: Options, prices: KnownPrices, now: datetime) -> Iterator[Problem]:
    """Limits and caps below the cheapest instance, and discounts that cost more than none."""
    agreed = _agreed(options, now)
    yield from _limits(options, prices, agreed)
    yield from _gpu_hours(options, prices)
    yield from _caps(options, prices, agreed)
    for index, entry in enumerate(options.discounts):
        usd = prices.usd.get(Market.ON_DEMAND, {}).get(entry.instance_type)
        if entry.count and usd is not None and entry.usd_per_hour > usd:
            yield Problem(
                f"c.EC2Spawner.discounts[{index}].usd_per_hour",
                f'USD {entry.usd_per_hour:g} is more than "instance_type" {entry.instance_type} '
                f"costs without a discount, USD {usd:g}: it is a price, not a percentage",
                f"write what an hour of one instance costs with it, less than {usd:g}",
            )


def _agreed(options: Options, now: datetime) -> Mapping[str, float]:
    """Instance type -> the lowest price of an hour that is agreed in advance."""
    found: dict[str, float] = {}
    for entry in options.discounts:
        if entry.count and not entry.discount().has_expired(now):
            known = found.get(entry.instance_type, entry.usd_per_hour)
            found[entry.instance_type] = min(known, entry.usd_per_hour)
    return found


def _cheapest(
    profile: Profile,
    markets: Iterable[Market],
    options: Options,
    prices: KnownPrices,
    agreed: Mapping[str, float],
) -> float | None:
    """The lowest price of an instance of the profile; None unless all are known. What a Capacity
    Block costs by the hour is not."""
    if options.capacity_reservations.blocks:
        return None
    found: list[float] = []
    for market in markets:
        for kind in prices.types.get(profile.slug, ()):
            usd = prices.usd.get(market, {}).get(kind.name)
            if usd is None:
                return None
            found.append(min(usd, agreed.get(kind.name, usd)) if market != Market.SPOT else usd)
    return min(found, default=None)


def _reserved_hours(options: Options) -> float:
    """Hours that a start must be able to afford: one, or less where servers may end before. With
    `idle_hook` any server may."""
    if options.idle_hook is not None:
        return 0.0
    idle = [options.idle, *options.idle_by_group.values(), *(x.idle for x in options.profiles)]
    ages = [each.max_age for each in idle] + [words.max_run for _, words in scopes(options)]
    return min(filter(None, [FIRST_HOUR, *ages])) / 3600


def _limits(
    options: Options, prices: KnownPrices, agreed: Mapping[str, float]
) -> Iterator[Problem]:
    """Judge by the instance alone: its disk and address come to it. 0 is a choice."""
    starts = [
        _Start(each, usd)
        for each in options.profiles
        if (usd := _cheapest(each, each.every_market, options, prices, agreed)) is not None
    ]
    if not starts or len(starts) < len(options.profiles):
        return
    cheapest = min(starts, key=lambda start: start.usd_per_hour)
    usd, hours = cheapest.usd_per_hour, _reserved_hours(options)
    needs = {"usd_per_hour": usd} | dict.fromkeys(_ALL_MONEY, usd * hours)
    for where, words in scopes(options):
        for name, needed in needs.items():
            if 0 < (getattr(words, name) or 0) < needed:
                yield Problem(
                    f"c.EC2Spawner.limits.{where}.{name}",
                    f"USD {getattr(words, name):g} refuses every start: the cheapest of "
                    f'c.EC2Spawner.profile_list, "{cheapest.profile.display_name}", needs '
                    f"USD {needed:.3g} or more",
                    f"write more than {needed:.3g}, or add a cheaper profile",
                )


def _gpu_hours(options: Options, prices: KnownPrices) -> Iterator[Problem]:
    fewest: list[float] = []
    for profile in options.profiles:
        types = prices.types.get(profile.slug, ())
        if not types:
            return
        fewest.append(min(float(kind.gpu_count or kind.gpu_partition) for kind in types))
    needed = min(fewest, default=0.0) * _reserved_hours(options)
    for where, words in scopes(options):
        if 0 < (words.gpu_hours_per_month or 0) < needed:
            yield Problem(
                f"c.EC2Spawner.limits.{where}.gpu_hours_per_month",
                f"{words.gpu_hours_per_month:g} GPU-hours refuse every start: each profile of "
                f"c.EC2Spawner.profile_list needs {needed:.3g} or more for its first hour",
                f"write {needed:.3g} or more, or add a profile with fewer GPUs",
            )


def _caps(options: Options, prices: KnownPrices, agreed: Mapping[str, float]) -> Iterator[Problem]:
    by_slug = {each.slug: each for each in options.profiles}
    for index, entry in enumerate(options.warm_pool):
        profile, where = by_slug.get(entry.profile), f"c.EC2Spawner.warm_pool[{index}]"
        if profile is None or not entry.running:
            continue
        markets = (Market(entry.market),) if entry.market else profile.markets[:1]
        usd = _cheapest(profile, markets, options, prices, agreed)
        caps = (
            (f"{where}.usd_per_hour", entry.usd_per_hour),
            ("c.EC2Spawner.warm_pool_usd_per_hour", options.warm_pool_usd_per_hour),
            ("c.EC2Spawner.limits.hub.usd_per_hour", options.limits.hub.usd_per_hour),
        )
        cap, name = min(((cap, name) for name, cap in caps if cap is not None), default=(None, ""))
        if usd is not None and cap is not None and cap < usd:
            yield Problem(
                f"{where}.running",
                f'no instance waits: one of "{profile.display_name}", {markets[0]}, costs '
                f"USD {usd:.3g} an hour or more, and {name} is {cap:g}",
                f"raise {name} above {usd:.3g}, or remove the entry",
            )

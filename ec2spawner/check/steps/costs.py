"""Prices, and what they add up to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ... import data
from ...config import KnownPrices, Profile, priced
from ...core.profiles.choices import MARKETS_OF
from ...core.profiles.profiles import InstanceType
from ...wire import Market
from ..finding import Finding, unproved, warning
from ..topics import Topic
from ..verdicts.costs import ProfilePrice, judge_idle_hour, judge_worst_month
from ..verdicts.prices import judge_prices
from .context import Context, answer
from .profiles import Resolved

Prices = Mapping[Market, Mapping[str, float]]
"""USD/hour of instance types. On spot those of any zone may be asked for: the highest that holds
now, or the lowest of the last days."""


async def check_costs(
    context: Context,
    resolved: Resolved,
    zones: Sequence[str],
    public: bool,
    findings: list[Finding],
) -> None:
    """Findings on prices, and on what they mean for each profile and for all of them."""
    if not resolved.all_types:
        findings.append(unproved(Topic.PRICES, "not checked without instance types"))
        return
    prices, lowest = await _prices(context, resolved.all_types, zones, findings)
    if not context.options.profiles:
        return
    if not context.config.unsound:
        known = KnownPrices(resolved.types, lowest)
        found = priced(context.options, context.config.beside, known, context.now)
        findings += [warning(Topic.OPTION, p.wrong, p.fix, name=p.option) for p in found]
    each = [_price(context, p, resolved.types[p.slug], prices) for p in resolved.profiles]
    findings += [judge_idle_hour(price, public_address=public) for price in each]
    findings.append(judge_worst_month(each, context.config.max_servers, public_address=public))


async def _prices(
    context: Context,
    types: Sequence[InstanceType],
    zones: Sequence[str],
    findings: list[Finding],
) -> tuple[Prices, Prices]:
    """The highest prices and the lowest ones."""
    names = sorted(kind.name for kind in types)
    (spot, spot_error), (listed, list_error) = await asyncio.gather(
        answer(context.cloud.spot_history(names, zones, context.now)),
        answer(context.cloud.on_demand_prices(names)),
    )
    highest: dict[str, float] = {}
    lowest: dict[str, float] = {}
    for (name, _zone), points in (spot or {}).items():
        least = min(point.usd_per_hour for point in points)
        highest[name] = max(highest.get(name, 0.0), points[-1].usd_per_hour)
        lowest[name] = min(lowest.get(name, least), least)
    bundled = context.options.region == data.PRICES_REGION
    asked = len(names)
    findings += [
        judge_prices(Market.SPOT, len(highest), asked, bundled=False, error=spot_error),
        judge_prices(Market.ON_DEMAND, len(listed or ()), asked, bundled=bundled, error=list_error),
    ]
    table = {k.name: k.on_demand_usd_per_hour for k in types} if bundled and not listed else {}
    known = {name: usd for name, usd in table.items() if usd is not None}
    on_demand = {Market.ON_DEMAND: {**known, **(listed or {})}}
    return {Market.SPOT: highest, **on_demand}, {Market.SPOT: lowest, **on_demand}


def _price(
    context: Context, profile: Profile, types: Sequence[InstanceType], prices: Prices
) -> ProfilePrice:
    chosen = [market for word in profile.profile_options.market for market in MARKETS_OF[word]]
    markets = dict.fromkeys((*profile.markets, *chosen))
    by_market = {
        market: [prices[market][kind.name] for kind in types if kind.name in prices[market]]
        for market in markets
    }
    policy = context.options.idle_policy(profile)
    return ProfilePrice(
        profile.display_name,
        {market: min(found) for market, found in by_market.items() if found},
        max((usd for found in by_market.values() for usd in found), default=None),
        policy.server_seconds or None,
        context.options.disk(profile),
    )

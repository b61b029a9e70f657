"""One line for each region and profile: the cheapest machine there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..config import Profile
from ..core.offers.interruption_rate import risk_words
from ..core.pricing.price_history import PricePoint, steadiness
from ..core.profiles.profiles import InstanceType, resolve
from ..wire import Market


@dataclass(frozen=True, slots=True)
class Region:
    """What AWS says of one region. Prices in USD/hour."""

    name: str
    zones: tuple[str, ...] = ()
    types: Mapping[str, InstanceType] = field(default_factory=dict)
    """What its zones offer, of the types that the profiles may mean."""
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Instance type -> zones."""
    on_demand: Mapping[str, float] = field(default_factory=dict)
    on_demand_source: str = ""
    spot: Mapping[tuple[str, str], tuple[PricePoint, ...]] = field(default_factory=dict)
    latency_ms: float | None = None
    """To its EC2 endpoint and back; None where it was not measured."""
    error: str = ""
    """Why nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """Prices in USD/hour, before tax; None is unknown."""

    region: str
    profile: str
    offered: bool
    instance_type: str = ""
    """The one with the cheapest offer of all that the profile may mean."""
    zones: tuple[str, ...] = ()
    """Those that have it."""
    on_demand_usd_per_hour: float | None = None
    on_demand_source: str = ""
    spot_usd_per_hour: float | None = None
    """In the cheapest zone."""
    spot_by_zone: Mapping[str, float] = field(default_factory=dict)
    saving_percent: int | None = None
    """Of the cheapest spot against on-demand."""
    steadiness: str = ""
    """Of the cheapest zone's spot price over the last seven days, in words."""
    risk: str = ""
    """The rate at which AWS reclaims it, in words."""
    latency_ms: float | None = None
    error: str = ""


def rows_of(
    region: Region,
    profiles: Sequence[Profile],
    architecture: str,
    now: datetime,
    volumes_of: Callable[[Profile], int] = lambda profile: 0,
) -> list[Row]:
    """In the order of the profiles; of a region that did not answer, each with its error.

    `volumes_of`: the EBS volumes of a profile's server, which not every type can have.
    """
    return [_row(region, each, architecture, now, volumes_of(each)) for each in profiles]


def _row(region: Region, profile: Profile, architecture: str, now: datetime, volumes: int) -> Row:
    types = resolve(profile, region.types, architecture, volumes)
    known = Row(
        region.name,
        profile.display_name,
        offered=bool(types),
        latency_ms=region.latency_ms,
        error=region.error,
    )
    if not types:
        return known
    return _priced(known, region, min(types, key=lambda k: _cheapest(k, region, profile)), now)


def _cheapest(kind: InstanceType, region: Region, profile: Profile) -> tuple[bool, float, str]:
    """The lowest price of a type in the profile's markets; unknown ones last."""
    prices: list[float] = []
    if Market.SPOT in profile.markets:
        prices += _spot_by_zone(kind.name, region).values()
    if Market.ON_DEMAND in profile.markets and kind.name in region.on_demand:
        prices.append(region.on_demand[kind.name])
    return not prices, min(prices, default=0.0), kind.name


def _priced(row: Row, region: Region, kind: InstanceType, now: datetime) -> Row:
    by_zone = _spot_by_zone(kind.name, region)
    on_demand = region.on_demand.get(kind.name)
    zone = min(by_zone, key=lambda each: (by_zone[each], each), default="")
    spot = by_zone.get(zone)
    return Row(
        row.region,
        row.profile,
        offered=True,
        instance_type=kind.name,
        zones=tuple(sorted(region.offered.get(kind.name, ()))),
        on_demand_usd_per_hour=on_demand,
        on_demand_source=region.on_demand_source if on_demand is not None else "",
        spot_usd_per_hour=spot,
        spot_by_zone=by_zone,
        saving_percent=round(100 * (1 - spot / on_demand)) if spot and on_demand else None,
        steadiness=steadiness(region.spot[kind.name, zone], now).words if zone else "",
        risk=risk_words(kind.interruption_band),
        latency_ms=row.latency_ms,
    )


def _spot_by_zone(instance_type: str, region: Region) -> dict[str, float]:
    return {
        zone: points[-1].usd_per_hour
        for (name, zone), points in sorted(region.spot.items())
        if name == instance_type and points
    }

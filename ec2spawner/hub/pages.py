"""What the spawn page shows, from options, prices and leases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ..config import Options, Profile
from ..core.profiles import describe, visible_profiles
from ..provisioner.lease import Lease
from ..provisioner.prices import Price, PriceBook
from ..wire import Market
from .spawn_page import Card


def cards_for(
    options: Options,
    prices: PriceBook | None,
    groups: Collection[str],
    selected: str,
    usual: Mapping[str, float],
    now: datetime,
) -> Sequence[Card]:
    """A card for each profile that these groups may use.

    `selected` is a slug or empty; `usual` says by slug how long a start takes, in seconds.
    """
    visible = visible_profiles(options.profile_list, groups)
    marked = next((p.slug for p in visible if p.slug == selected), "") or next(
        (p.slug for p in visible if p.default), ""
    )
    return [
        replace(
            _card(options, prices, profile, now),
            selected=profile.slug == marked,
            usual_start_seconds=usual.get(profile.slug),
        )
        for profile in visible
    ]


def _card(options: Options, prices: PriceBook | None, profile: Profile, now: datetime) -> Card:
    types = options.instance_types(profile)
    hardware = describe(types)
    names = tuple(kind.name for kind in types)
    spot = prices.cheapest(Market.SPOT, names) if prices else None
    on_demand = prices.cheapest(Market.ON_DEMAND, names) if prices else None
    shown = on_demand if profile.market == "on-demand" else spot or on_demand
    return Card(
        slug=profile.slug,
        name=profile.display_name,
        description=profile.description,
        gpu_text=hardware.gpu_text,
        vcpus=hardware.vcpus,
        memory_gib=hardware.memory_gib,
        scratch_gb=hardware.scratch_gb,
        market=profile.market,
        spot_usd_per_hour=spot.usd_per_hour if spot else None,
        on_demand_usd_per_hour=on_demand.usd_per_hour if on_demand else None,
        price_source=shown.source if shown else "",
        price_age_seconds=_age(shown, now),
        idle_stop_seconds=options.idle_policy(profile).server_seconds,
    )


def _age(price: Price | None, now: datetime) -> float | None:
    return (now - price.read_at).total_seconds() if price and price.read_at else None


def notice_of(lease: Lease | None) -> str | None:
    """How the last server ended, where its user did not end it themself."""
    if lease is None or lease.stop is None or lease.ended_at is None:
        return None
    if lease.stop.reason == "user" or lease.ready_at is None:
        return None
    kept = "Your files are kept." if lease.home_kind != "none" else "It kept no files."
    reason = lease.stop.message.rstrip(". ") or "No reason was given"
    return (
        f"Your last server was stopped at {lease.ended_at:%H:%M} UTC on "
        f"{lease.ended_at:%d %B}. {reason}. {kept}"
    )


def home_sentence(options: Options) -> str:
    """What becomes of one's files, in a sentence."""
    if options.home.kind == "none":
        return "Nothing is kept when the server stops: save elsewhere what you need."
    return "Your files are kept when the server stops, and are there under any choice."

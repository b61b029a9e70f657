"""Builds the profile cards of one user from what provisioner and options know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from .... import data
from ....config import DiskBounds, Options, Profile
from ....core.homes.zone_migration import is_worth_moving
from ....core.offers.purchase import Offer
from ....core.pricing.gpu_value import Several, Value, scaled, several, t4s_of_gpu, value
from ....core.pricing.price_history import WEEK, sampled, steadiness
from ....core.profiles.choices import MARKETS_OF, open_markets
from ....core.profiles.profiles import Hardware, InstanceType, describe, resolve
from ....provisioner.model.leases.lease import Home
from ....provisioner.offers.prices import Price
from ....provisioner.provisioner import Provisioner
from ....wire import Market
from ...spawn.home_choice import copies_home
from ...spawn.home_migration import cheapest_elsewhere, consequence_of_move, may_move
from ...spawn.own_disk import beside_instance, own_disk_gib
from .profile_card import Bounds, Card, Elsewhere, Line, OfferSeen
from .retention_text import after_stop_text
from .spawn_form import HomeSize

SAMPLES = 57
"""Of a line: one for every three hours of seven days, including both ends."""


async def cards_for(
    options: Options,
    provisioner: Provisioner,
    profiles: Sequence[Profile],
    zones: Iterable[str],
    home: Home | None = None,
) -> tuple[Card, ...]:
    """A card for each profile. `zones` are those that the user's `home` allows."""
    usual = await provisioner.start_durations.of_starts([profile.slug for profile in profiles])
    zones, cards = tuple(sorted(set(zones))), []
    for profile in profiles:
        card = _card(options, provisioner, profile, zones, usual)
        if home is not None and may_move(options, home):
            card = replace(card, elsewhere=_elsewhere(options, provisioner, card, profile, home))
        cards.append(card)
        await asyncio.sleep(0)  # thirty cards at once would delay all other requests
    return tuple(cards)


def _card(
    options: Options,
    provisioner: Provisioner,
    profile: Profile,
    zones: Sequence[str],
    usual: Mapping[str, float],
) -> Card:
    now, catalogue = provisioner.now(), provisioner.market.catalogue
    volumes = options.volumes_of(profile)
    here = catalogue.types_for(profile, options.architecture, volumes)
    catalogue.want(profile.instance_types)
    provisioner.market.prices.want(kind.name for kind in here)
    # A profile that no zone offers is still shown, and says so.
    types = here or resolve(profile, catalogue.types, options.architecture)
    hardware = describe(types) if types else Hardware("", 0, 0, 0)
    offers = _offers(provisioner, here, zones, now)
    if options.after_stop_of(profile).then == "stop":  # it is not launched into reservations
        offers = tuple(seen for seen in offers if not seen.offer.reservation)
    chosen, idle = profile.profile_options, options.idle_policy(profile)
    image = provisioner.market.images.known
    root_gib = image.root_gib if image else 0
    card = Card(
        slug=profile.slug,
        name=profile.display_name,
        hardware=hardware,
        gpu=types[0].gpu if types else profile.gpu or "",
        description=profile.description,
        market=profile.market,
        markets=open_markets(profile),
        offers=offers,
        usual_start_seconds=usual.get(profile.slug),
        ready_at_once=provisioner.pool.is_ready(profile.slug, MARKETS_OF[profile.market], zones),
        beside=beside_instance(options, provisioner, profile),
        disk_gib=own_disk_gib(options, provisioner, profile),
        disk_usd_per_hour=provisioner.market.prices.disks_usd_per_hour(100, []),
        disk_bounds=_at_least(root_gib, chosen.disk_gib) if chosen.disk_gib else None,
        idle_seconds=idle.server_seconds,
        sleeps=idle.then == "sleep",
        idle_bounds=Bounds(chosen.idle.min, chosen.idle.max) if chosen.idle else None,
        default=profile.default,
        after_stop=after_stop_text(options.after_stop_of(profile), open_markets(profile)),
        no_volumes="" if here else _no_volumes(types, volumes),
    )
    first = card.first()
    kind = catalogue.types.get(first.offer.instance_type) if first else next(iter(types), None)
    return replace(
        card,
        line=_line(provisioner, card, now),
        value=_value(kind, card.usd_per_hour(first)),
        several=_several(provisioner, kind),
    )


def _at_least(root_gib: int, chosen: DiskBounds) -> Bounds:
    """The sizes to choose from, without those that are too small for the image."""
    return Bounds(max(chosen.min, root_gib), max(chosen.max, root_gib))


def _no_volumes(types: Sequence[InstanceType], volumes: int) -> str:
    """Why no type can have the volumes of a server; empty if one can, which no zone offers now."""
    refused = [kind.why_no_volumes(volumes) for kind in types]
    return refused[0] if refused and all(refused) else ""


def _elsewhere(
    options: Options, provisioner: Provisioner, card: Card, profile: Profile, home: Home
) -> Elsewhere | None:
    """A better zone for the home with this profile; None if the current one is as good."""
    best = cheapest_elsewhere(options, provisioner, home, profile, MARKETS_OF[card.market])
    if best is None:
        return None
    first = card.first()
    is_available = first is not None and first.mark is None
    here = first.offer.usd_per_hour if first else None
    if is_available and not is_worth_moving(here, best.usd_per_hour):
        return None
    volumes = options.volumes_of(profile)
    types = provisioner.market.catalogue.types_for(profile, options.architecture, volumes)
    there = _offers(provisioner, types, (best.zone,), provisioner.now())
    return Elsewhere(
        home_zone=home.zone or "",
        zone=best.zone,
        offers=tuple(seen for seen in there if seen.mark is None),
        takes=consequence_of_move(provisioner, home, best.zone),
    )


# --- offers and their prices -----------------------------------------------------------------


def _offers(
    provisioner: Provisioner, types: Sequence[InstanceType], zones: Sequence[str], now: datetime
) -> tuple[OfferSeen, ...]:
    every = provisioner.market.offers.all([kind.name for kind in types], zones, tuple(Market))
    return tuple(_seen(provisioner, offer, now) for offer in every)


def _seen(provisioner: Provisioner, offer: Offer, now: datetime) -> OfferSeen:
    prices = provisioner.market.prices
    if offer.reservation:
        price = provisioner.market.offers.reserved_price(
            offer.instance_type, offer.zone, offer.reservation
        )
    elif offer.paid:
        price = prices.paid(offer.instance_type, offer.zone)
    else:
        price = prices.price(offer.market, offer.instance_type, offer.zone)
    return OfferSeen(
        offer=offer,
        source=price.source if price else "",
        age_seconds=_age(price, now),
        mark=provisioner.market.offers.mark_of(offer),
    )


def _age(price: Price | None, now: datetime) -> float | None:
    if price is None or price.read_at is None:
        return None
    return max((now - price.read_at).total_seconds(), 0.0)


def _line(provisioner: Provisioner, card: Card, now: datetime) -> Line | None:
    """Price history of the cheapest spot offer; None if its user cannot buy spot, or if unknown."""
    if not card.may_buy(Market.SPOT) or (cheapest := card.cheapest(Market.SPOT)) is None:
        return None
    offer = cheapest.offer
    points = provisioner.market.prices.history(offer.instance_type, offer.zone)
    if not points:
        return None
    return Line(
        instance_type=offer.instance_type,
        zone=offer.zone,
        start=now - WEEK,
        interval_seconds=WEEK.total_seconds() / (SAMPLES - 1),
        usd_per_hour=sampled(points, now - WEEK, now, SAMPLES),
        steadiness=steadiness(points, now),
    )


# --- value -----------------------------------------------------------------------------------


def t4s_of(kind: InstanceType) -> float | None:
    """T4s of work of an instance type's GPUs; None without a GPU, and for unknown figures."""
    share = kind.gpu_partition if 0 < kind.gpu_partition < 1 else 1.0
    model = data.gpu_model(kind.gpu, kind.gpu_memory_mib / share) if kind.gpu else None
    whole = model and t4s_of_gpu(model.fp16_tflops, model.bandwidth_gb_s)
    return scaled(whole, kind.gpu_count, share) if whole else None


def _value(kind: InstanceType | None, usd_per_hour: float | None) -> Value | None:
    return value(t4s_of(kind), usd_per_hour) if kind else None


def _several(provisioner: Provisioner, kind: InstanceType | None) -> Several | None:
    """By list prices: they are stable, and exist for a single GPU in every region."""
    if kind is None or kind.gpu_count < 2:
        return None
    ones = (
        provisioner.market.prices.on_demand(other.name)
        for other in provisioner.market.catalogue.types.values()
        if other.gpu_count == 1
        and (other.gpu, other.gpu_memory_mib, other.architecture)
        == (kind.gpu, kind.gpu_memory_mib, kind.architecture)
    )
    one = min((price.usd_per_hour for price in ones if price), default=None)
    own = provisioner.market.prices.on_demand(kind.name)
    return several(kind.gpu_count, own.usd_per_hour if own else None, one)


# --- sentences -------------------------------------------------------------------------------


def home_sentence(options: Options) -> str:
    """What happens to the user's files at a stop, in a sentence."""
    if options.home.kind == "none":
        return "Your files are deleted when the server stops: save elsewhere what you need."
    return "Your files are kept when the server stops, and are there whatever you choose."


def copy_sentence(options: Options, server: str, home: Home | None, source: Home | None) -> str:
    """That the files of a server begin, or began, as a copy of the default server's, and of when;
    empty where they do not. `home` is one that stays, `source` what would be copied."""
    if home is not None and home.is_copy and home.volume_id is not None:
        as_of = f"{home.created_at:%d %B %Y, %H:%M} UTC"
        return (
            f"They began as a copy of the files of your default server, as of {as_of}. Changes on "
            "one server do not reach the other."
        )
    has_source = source is not None
    begins = home.is_copy if home is not None else copies_home(options, server) and has_source
    if not begins:
        return ""
    return (
        "They begin as a copy of the files of your default server, as they are when you start this "
        "server. Later changes on one server do not reach the other."
    )


def home_size(options: Options, home: Home | None) -> HomeSize | None:
    """Sizes that the user may choose for the home; None for no choice."""
    bounds = options.home.user_may_choose if options.home.kind == "ebs" else None
    if bounds is None:
        return None
    has = home.size_gib if home else 0
    least = max(bounds.min, has)
    if least > bounds.max:
        return None
    return HomeSize(least=least, most=bounds.max, now=max(options.home.size_gib, has))

"""The texts of a profile card on the spawn page. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ....core.offers.interruption_rate import risk_words
from ....core.offers.launch_errors import ErrorClass
from ....core.pricing.money import digits
from ....core.profiles.choices import MARKETS_OF, WAITS
from ....core.text.durations import approximate
from ....wire import Market
from .profile_card import Card, OfferSeen, SoldOutIn
from .sparkline import Sparkline, sparkline

WAYS: Mapping[str, tuple[str, str]] = {
    "spot-first": ("Cheap: spot first", "May be interrupted; on-demand if sold out."),
    "spot-wait": (
        "Cheap: spot or wait",
        "May be interrupted; waits if sold out, and asks you before it buys on-demand.",
    ),
    "spot-only": ("Cheap: spot only", "May be interrupted; no server if sold out."),
    "on-demand": ("Safe: on-demand", "Not interrupted."),
}
"""Label and hint for each value of `market`."""


@dataclass(frozen=True, slots=True)
class _Reason:
    """Words of a card whose instances the account may not start."""

    shortage: str
    badge: str
    start: str = ""
    warning: str = ""


ACCOUNT_REASONS: Final[Mapping[ErrorClass, _Reason]] = {
    ErrorClass.QUOTA: _Reason("quota of this account used up", "quota reached"),
    ErrorClass.PLAN: _Reason(
        "not in this account's AWS plan",
        "not in AWS plan",
        "not in this account's AWS plan",
        "A start would fail. Choose another profile, or ask an admin for AWS's paid plan.",
    ),
    ErrorClass.VERIFICATION: _Reason(
        "waits for AWS to verify this account",
        "not verified yet",
        "waits until AWS has verified this account",
        "AWS is still verifying this account: your start will wait.",
    ),
}
"""By what EC2 has refused. A quota has room again as soon as another server stops."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text, with the seconds since it was observed where that matters."""

    text: str
    age_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PriceText:
    """The main price, and texts to compare it with."""

    usd: str
    """Such as `0.19`, in USD/hour; empty while unknown."""
    market: str
    """The market of this price, such as `spot`."""
    saving: str = ""
    """Against on-demand, such as `−64 %`; empty for none."""
    beside: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveText:
    """What moving the user's files to another zone would gain."""

    zone: str
    here: str
    """Such as `Your files are in us-east-1a: $0.49/h there; $0.29/h in us-east-1c`."""
    choice: str
    """The label of the choice in the panel."""
    takes: str


@dataclass(frozen=True, slots=True)
class WayText:
    """One choice of market, as the panel beside the cards offers it."""

    value: str
    label: str
    hint: str
    about: str
    """Such as `$0.42 per hour`; empty while the price is unknown."""
    parts: str
    """What it consists of, in words; empty where that is the instance alone."""
    start: str
    """What pressing Start buys, such as `spot, about $0.13/h; on-demand $0.53/h if sold out`."""
    start_moved: str = ""
    """The same after the move to another zone; empty if there is no such move."""
    warning: str = ""
    """What is sold out in it."""


# --- the price -------------------------------------------------------------------------------


def price_text(card: Card, now: datetime) -> PriceText:
    """The price of a start with the profile's defaults."""
    first = card.first()
    if first is None:
        where = "the zone of your files does" if card.elsewhere else "this hub's zones do"
        return PriceText("", "", beside=(Phrase(f"{where} not offer it"),))
    if first.offer.market is Market.SPOT:
        return _spot(card, first, now)
    return _on_demand(card, first, now)


def _spot(card: Card, first: OfferSeen, now: datetime) -> PriceText:
    on_demand = card.cheapest(Market.ON_DEMAND)
    other = card.usd_per_hour(on_demand)
    beside = [Phrase(f"on-demand ${usd(other)}" if other else "on-demand price unknown")]
    if often := risk(card):
        beside.append(Phrase(f"{often} interrupted"))
    beside += _shortages(card, now)
    own = card.usd_per_hour(first)
    saving = round(100 * (1 - own / other)) if own and other else 0
    return PriceText(usd(own), "spot", f"−{saving} %" if saving >= 1 else "", tuple(beside))


def _on_demand(card: Card, first: OfferSeen, now: datetime) -> PriceText:
    beside = []
    if Market.SPOT in MARKETS_OF[card.market]:
        spot, out = card.cheapest(Market.SPOT), card.sold_out(Market.SPOT)
        if out is None or not out.everywhere:
            known = card.usd_per_hour(spot)
            beside.append(Phrase(f"spot ${usd(known)}" if known else "spot price unknown"))
    elif first.mark is None:
        beside.append(Phrase("not interrupted"))
    beside += _shortages(card, now)
    market = "on-demand"
    if first.offer.is_block and (until := first.offer.until):
        market = f"in a Capacity Block, until {until:%d %B, %H:%M} UTC"
    elif first.offer.reservation:
        market += ", in reserved capacity"
    elif first.offer.paid:
        market += ", already paid for"
    return PriceText(usd(card.usd_per_hour(first)), market, beside=tuple(beside))


def _shortages(card: Card, now: datetime) -> list[Phrase]:
    """The shortages in the profile's own markets."""
    if card.unusable:
        return [Phrase(card.unusable)]
    found = {market: out for market in MARKETS_OF[card.market] if (out := card.sold_out(market))}
    said = {market: _shortage(out) for market, out in found.items()}
    if len(said) > 1 and len({*said.values()}) == 1:
        age = min(_age(out, now) for out in found.values())
        return [Phrase(f"{' and '.join(said)} {next(iter(said.values()))}", age)]
    return [Phrase(f"{market} {said[market]}", _age(out, now)) for market, out in found.items()]


def _shortage(out: SoldOutIn) -> str:
    if out.everywhere and (reason := ACCOUNT_REASONS.get(out.why)):
        return reason.shortage
    if out.of == 1:
        return f"sold out in {out.zones[0]}"
    return f"sold out in {len(out.zones)} of {out.of} zones"


def _age(out: SoldOutIn, now: datetime) -> float:
    return max((now - out.seen).total_seconds(), 0.0)


def badge(card: Card) -> str:
    """`sold out`, `spot sold out`, `not usable`, one of `ACCOUNT_REASONS`, or empty."""
    if card.unusable:
        return "not usable"
    own = MARKETS_OF[card.market]
    found = {market: card.sold_out(market) for market in own}
    out = {market: each for market, each in found.items() if each and each.everywhere}
    if not out:
        return ""
    whys = {each.why for each in out.values()}
    reason = ACCOUNT_REASONS.get(whys.pop()) if len(whys) == 1 else None
    what = reason.badge if reason else "sold out"
    return what if len(out) == 2 else f"{next(iter(out))} {what}"


def risk(card: Card) -> str:
    """How often AWS interrupts the cheapest spot offer, in words; empty if unknown."""
    spot = card.cheapest(Market.SPOT)
    return risk_words(spot.offer.interruption_band if spot else None)


# --- another zone ----------------------------------------------------------------------------


def move_text(card: Card) -> MoveText | None:
    """What a move to another zone would gain; None if nothing."""
    elsewhere, moved = card.elsewhere, card.moved()
    if elsewhere is None or moved is None:
        return None
    first, then = card.first(), moved.first()
    there = _hourly(moved, then) if then else ""
    if first is None:
        here = ", which does not offer this machine"
    elif first.mark is not None:
        here = ", where this is sold out"
    else:
        here = f": {_hourly(card, first)} there"
    return MoveText(
        zone=elsewhere.zone,
        here=f"Your files are in {elsewhere.home_zone}{here}; {there} in {elsewhere.zone}",
        choice=f"Move my files to {elsewhere.zone} first: {there}",
        takes=elsewhere.takes,
    )


def _hourly(card: Card, seen: OfferSeen) -> str:
    known = card.usd_per_hour(seen)
    return "price unknown" if known is None else f"${usd(known)}/h"


# --- the machine -----------------------------------------------------------------------------


def facts(card: Card) -> tuple[str, ...]:
    """What the machine is and how long a start takes, in short phrases."""
    hardware = card.hardware
    # A card named "T4, 16 GB" does not repeat "1 × T4, 16 GB".
    in_name = hardware.gpu_text.removeprefix("1 × ") in card.name
    words = [] if in_name else [hardware.gpu_text]
    if hardware.vcpus:
        words.append("1 vCPU" if hardware.vcpus == 1 else f"{hardware.vcpus} vCPUs")
    if hardware.memory_gib:
        words.append(f"{hardware.memory_gib:g} GiB memory")
    if scratch := hardware.scratch_gb:
        size = f"{scratch / 1000:g} TB" if scratch >= 1000 else f"{scratch} GB"
        words.append(f"{size} scratch")
    if card.ready_at_once:
        words.append("ready at once")
    elif card.usual_start_seconds is not None:
        words.append(f"starts in about {approximate(card.usual_start_seconds)}")
    return tuple(words)


def value_lines(card: Card) -> tuple[str, ...]:
    """Price per unit of work, and several GPUs compared with one; empty without a GPU."""
    if not card.gpu:
        return ()
    lines = []
    if card.value is None:
        lines.append("Value not known: no figures for this GPU")
    else:
        number = f"{card.value.t4s:.1f}" if card.value.t4s < 9.95 else f"{card.value.t4s:.0f}"
        work = f"Value: {number} T4{'' if number == '1.0' else 's'} of work"
        price = card.value.usd_per_t4_hour
        lines.append(f"{work}, ${usd(price)} per T4-hour" if price is not None else work)
    if card.several:
        hint = f"About {card.several.times_the_work:.2g} times one {card.gpu}"
        times = card.several.times_the_price
        lines.append(f"{hint}, at {times:.2g} times its price" if times else hint)
    return tuple(lines)


# --- the line --------------------------------------------------------------------------------


def drawing(card: Card) -> Sparkline | None:
    """Seven days of the spot price; None if unknown."""
    if card.line is None:
        return None
    on_demand = card.cheapest(Market.ON_DEMAND)
    return sparkline(card.line.usd_per_hour, on_demand.offer.usd_per_hour if on_demand else None)


def drawing_label(card: Card) -> str:
    """The drawing in words, for screen readers."""
    if card.line is None:
        return ""
    known = [sample for sample in card.line.usd_per_hour if sample is not None]
    low, high = usd(min(known)), usd(max(known))
    reach = f"${low}" if low == high else f"between ${low} and ${high}"
    words = [f"Spot price of seven days in {card.line.zone}: {reach} per hour"]
    on_demand = card.cheapest(Market.ON_DEMAND)
    if on_demand:
        words.append(f"dotted: on-demand, ${usd(on_demand.offer.usd_per_hour)}")
    return "; ".join(words)


# --- the choices -----------------------------------------------------------------------------


def ways(card: Card) -> tuple[WayText, ...]:
    """The markets to choose from, or the only one."""
    return tuple(_way(card, word) for word in card.ways)


def _way(card: Card, word: str) -> WayText:
    label, hint = WAYS[word]
    first = card.first(word)
    known = card.usd_per_hour(first)
    about = "" if known is None else f"${usd(known)} per hour"
    start = _start(card, word, first)
    moved = card.moved()
    return WayText(
        value=word,
        label=label,
        hint=hint,
        about=about,
        parts=_parts(card, first),
        start=start,
        start_moved=_start(moved, word, moved.first(word)) if moved else "",
        warning=_warning(card, word, first),
    )


def _parts(card: Card, first: OfferSeen | None) -> str:
    """Name the parts of the price as the panel of the notebook does."""
    own, beside = first.offer.usd_per_hour if first else None, card.beside
    if own is None or not beside.name:
        return ""
    return f"instance ${usd(own)}/h + its {beside.name} ${usd(beside.usd_per_hour)}/h"


def disk_price(card: Card) -> str:
    """What another size of its disk changes, as a sentence; empty where that is unknown."""
    if card.disk_usd_per_hour is None:
        return ""
    each = f"Each 100 GiB costs ${usd(card.disk_usd_per_hour)}/h"
    return f"{each}; prices are with {card.disk_gib} GiB."


def _start(card: Card, word: str, first: OfferSeen | None) -> str:
    """What a start buys first, at which price, and what it buys if that is sold out."""
    if card.unusable:
        return card.unusable
    if first is None:
        return "not offered here"
    if reason := _of_account(first):
        return reason.start
    if first.mark is not None:
        return f"sold out when last checked{'; waits' if word == WAITS else ''}"
    known = card.usd_per_hour(first)
    price = "price unknown" if known is None else f"about ${usd(known)}/h"
    words = f"{first.offer.market}, {price}"
    if word == WAITS:
        words += "; waits if sold out"
    elif first.offer.market is Market.SPOT and Market.ON_DEMAND in MARKETS_OF[word]:
        words += f"; {_up_to(card, Market.ON_DEMAND)} if sold out"
    return words


def _of_account(seen: OfferSeen) -> _Reason | None:
    """Why the account gets it in no market and zone; None also where only a quota is used up."""
    reason = ACCOUNT_REASONS.get(seen.mark.error_class) if seen.mark else None
    return reason if reason and reason.start else None


def _up_to(card: Card, market: Market) -> str:
    """The most that a start may pay in this market, whichever offer it gets."""
    offers = [seen for seen in card.offers if seen.offer.market is market and not seen.mark]
    prices = {card.usd_per_hour(seen) for seen in offers}
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return f"{market}, price unknown"
    return f"{market} {'up to ' if len(known) > 1 else ''}${usd(max(known))}/h"


def _warning(card: Card, word: str, first: OfferSeen | None) -> str:
    if card.unusable:
        other = "other instance types" if card.no_volumes else "another image"
        return f"A start would fail. Choose another profile, or ask an admin for {other}."
    if first is not None and (reason := _of_account(first)):
        return reason.warning
    if card.nothing_left(word):
        if word == WAITS:
            return "Sold out when last checked: your start will wait."
        return "Sold out when last checked. You can still try."
    out = card.sold_out(Market.SPOT) if word == "spot-first" else None
    if out and out.everywhere and first:
        return "Spot is sold out now, so this is on-demand."
    return ""


IDLE_STEPS = (300, 600, 900, 1200, 1800, 2700, 3600, 7200, 10800, 14400, 28800, 43200, 86400)
"""Idle times to choose from, in seconds, within the bounds."""


def idle_choices(card: Card, picked: int | None = None) -> tuple[tuple[int, str], ...]:
    """Idle times to choose from, as seconds and text, including the bounds and the picked one."""
    bounds = card.idle_bounds
    if bounds is None:
        return ()
    within = {step for step in IDLE_STEPS if bounds.min <= step <= bounds.max}
    ends = {round(bounds.min), round(bounds.max)}
    steps = sorted(within | ends | ({picked} if picked is not None else set()))
    return tuple((step, approximate(step)) for step in steps)


# --- words for numbers -----------------------------------------------------------------------


def usd(amount: float | None) -> str:
    """An amount in USD for a page; empty if unknown."""
    return "" if amount is None else digits(amount)


def refusing_json(card: Card) -> str:
    """The payers who cannot pay for the card, for the page's script."""
    return json.dumps(list(card.refusals))


def refusal_lines(card: Card, payers: Sequence[tuple[str, str]]) -> list[str]:
    """Why the card cannot be started, or by which payers not, each reason once. Without limits,
    which `limit_notices` has for all cards together."""
    why = {payer: x for payer, x in card.refusals.items() if payer not in card.limits_reached}
    if card.cannot_start:
        return list(dict.fromkeys(why.values()))
    labels = dict(payers)
    return [f"Not charged to {labels.get(payer, payer)}: {each}" for payer, each in why.items()]

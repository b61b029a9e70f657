"""What a user may start instead of a profile that is sold out. Pure.

Profiles with their open offers go in; a few alternatives come out: those nearest to what was
requested, the same profile first, then the cheapest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log

from ...core.offers.purchase import Offer, Purchase, next_purchase
from ...core.profiles.choices import MARKETS_OF
from ...wire import Market

MAX_ALTERNATIVES = 4
"""As many as can be read at a glance."""

MAX_PRICE_RATIO = 10.0
"""Another profile that costs more than this many times the requested one is not offered: a button
pressed by mistake costs money."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A profile that the user may start, with its open offers."""

    slug: str
    name: str
    has_gpu: bool
    markets: tuple[str, ...]
    """The values of `market` that its user may send; the profile's own is the first."""
    offers: tuple[Offer, ...] = ()
    """Open now, of both markets, in the zones that the user's home allows, best first."""
    beside_usd_per_hour: float = 0.0
    """What comes with the instance: its disks and public address."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something that can be started now."""

    profile: str
    """The profile's slug."""
    name: str
    """The profile's display name."""
    market: Market
    """The market in which its instance is bought."""
    usd_per_hour: float | None
    """Of the cheapest offer with all that comes with it, USD/hour; None is unknown."""
    may_cost_more: bool
    """The start may get another offer, at a higher or an unknown price."""
    user_options: dict[str, str] = field(default_factory=dict, hash=False)
    """What to send to JupyterHub for this start."""


def alternatives(
    candidates: Sequence[Candidate],
    wanted: str,
    reference: float | None,
    *,
    chosen: Mapping[str, object] = {},
    limit: int = MAX_ALTERNATIVES,
) -> tuple[Alternative, ...]:
    """Up to `limit` alternatives: one for each profile and market that has an open offer.

    `wanted` is the slug that was requested, with the user options `chosen`; `reference` is its
    price in USD/hour, or None. An alternative in the same profile keeps the chosen options. Nearest
    are the same profile in another market, then profiles that have a GPU if the wanted one has and
    none if not, then each profile's cheapest market, then the closest price.
    """
    requested = next((each for each in candidates if each.slug == wanted), None)
    found: list[tuple[tuple[bool, bool, bool, float], Alternative]] = []
    for candidate in candidates:
        own = sorted(_of(candidate), key=_price)
        for place, alternative in enumerate(own):
            if candidate.slug != wanted and _is_too_dear(alternative.usd_per_hour, reference):
                continue
            if candidate.slug == wanted:
                alternative = _with_choices(alternative, chosen)
            other_kind = requested is not None and candidate.has_gpu is not requested.has_gpu
            nearness = (
                candidate.slug != wanted,
                other_kind,
                place > 0,
                _distance(alternative.usd_per_hour, reference),
            )
            found.append((nearness, alternative))
    nearest = sorted(found, key=lambda pair: (pair[0], _price(pair[1])))[:limit]
    # Shown: the same profile first, then those with or without a GPU alike, the cheapest first.
    nearest.sort(key=lambda pair: (pair[0][:2], _price(pair[1])))
    return tuple(alternative for _, alternative in nearest)


def _of(candidate: Candidate) -> Iterable[Alternative]:
    """One for each market in which a start of the profile would buy first now."""
    bought: dict[Market, tuple[str, Purchase]] = {}
    for word in candidate.markets:
        offers = [offer for offer in candidate.offers if offer.market in MARKETS_OF[word]]
        places = {x.reservation or x.instance_type: 1 for x in offers if x.paid or x.reservation}
        purchase = next_purchase(offers, frozenset(), places)
        # On-demand by its own name: "spot-first" might find spot capacity by then.
        if purchase and (purchase.market not in bought or word == purchase.market.value):
            bought[purchase.market] = (word, purchase)
    for market, (word, purchase) in bought.items():
        beside = candidate.beside_usd_per_hour
        prices = {
            None if offer.usd_per_hour is None else offer.usd_per_hour + beside
            for offer in purchase.offers
        }
        yield Alternative(
            profile=candidate.slug,
            name=candidate.name,
            market=market,
            usd_per_hour=min((usd for usd in prices if usd is not None), default=None),
            may_cost_more=len(prices) > 1,
            user_options={"profile": candidate.slug, "market": word},
        )


def _with_choices(alternative: Alternative, chosen: Mapping[str, object]) -> Alternative:
    """With the chosen disk and idle time, which the same profile allows. Without the price limit:
    the button names this alternative's own price."""
    replaced = ("profile", "market", "max_usd_per_hour")
    kept = {name: str(value) for name, value in chosen.items() if name not in replaced}
    return replace(alternative, user_options=alternative.user_options | kept)


def _price(alternative: Alternative) -> tuple[float, str, str]:
    usd = alternative.usd_per_hour
    return inf if usd is None else usd, alternative.name, alternative.market


def _is_too_dear(usd: float | None, reference: float | None) -> bool:
    return usd is not None and reference is not None and usd > MAX_PRICE_RATIO * reference


def _distance(usd: float | None, reference: float | None) -> float:
    """The ratio of two prices, the same up or down; an unknown price is farthest."""
    if not usd or not reference:
        return inf
    return abs(log(usd / reference))

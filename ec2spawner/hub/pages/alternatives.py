"""What somebody may start instead, when what they asked for is sold out. Pure.

Profiles with their open offers go in; a few alternatives come out. Which ones: what is nearest
to what was asked for. In which order: the same profile first, then the cheapest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log

from ...core.offers.purchase import Offer, Purchase, next_purchase
from ...core.profiles.choices import MARKETS_OF
from ...wire import Market

MAX = 4
"""So many can be read at a glance by somebody who wanted something else."""

MAX_TIMES = 10.0
"""Another profile that costs more than so many times what was asked for is nobody's alternative,
and a button that is pressed by mistake costs money."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A profile that somebody may use, and what it can be had for right now."""

    slug: str
    name: str
    has_gpu: bool
    markets: tuple[str, ...]
    """The words that its user may send for `market`; the profile's own is the first."""
    offers: tuple[Offer, ...] = ()
    """Open now, of both markets, in the zones that the user's home allows, best first."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something that can be started now."""

    profile: str
    """The profile's slug."""
    name: str
    """The profile's display name."""
    market: Market
    """Where its machine comes from."""
    usd_per_hour: float | None
    """Of the cheapest offer, USD/hour; None is unknown."""
    dearer_may_come: bool
    """It may as well become another offer that costs more, or an unknown price."""
    user_options: dict[str, str] = field(default_factory=dict, hash=False)
    """What to give JupyterHub, so that exactly this is started."""


def alternatives(
    candidates: Sequence[Candidate],
    wanted: str,
    reference: float | None,
    *,
    chosen: Mapping[str, object] = {},
    most: int = MAX,
) -> tuple[Alternative, ...]:
    """Up to `most` alternatives: one for each profile and market that has an open offer.

    `wanted` is the slug that was asked for, with the user options `chosen`; `reference` is what it
    would have cost, USD/hour, or None. The same profile keeps what was chosen of it. Nearest are
    the same profile in another market, then what has a GPU or none as the wanted one, then each
    profile's cheapest market, then what costs about the same.
    """
    asked = next((each for each in candidates if each.slug == wanted), None)
    found: list[tuple[tuple[bool, bool, bool, float], Alternative]] = []
    for candidate in candidates:
        own = sorted(_of(candidate), key=_price)
        for place, alternative in enumerate(own):
            if candidate.slug != wanted and _is_too_dear(alternative.usd_per_hour, reference):
                continue
            if candidate.slug == wanted:
                alternative = _with_choices(alternative, chosen)
            other_kind = asked is not None and candidate.has_gpu is not asked.has_gpu
            nearness = (
                candidate.slug != wanted,
                other_kind,
                place > 0,
                _distance(alternative.usd_per_hour, reference),
            )
            found.append((nearness, alternative))
    nearest = sorted(found, key=lambda pair: (pair[0], _price(pair[1])))[:most]
    # Shown the same profile first, then those of the same kind, the cheaper before the dearer.
    nearest.sort(key=lambda pair: (pair[0][:2], _price(pair[1])))
    return tuple(alternative for _, alternative in nearest)


def _of(candidate: Candidate) -> Iterable[Alternative]:
    """One for each market in which a start of the profile would buy first right now."""
    bought: dict[Market, tuple[str, Purchase]] = {}
    for word in candidate.markets:
        offers = [offer for offer in candidate.offers if offer.market in MARKETS_OF[word]]
        paid = {offer.instance_type: 1 for offer in offers if offer.paid}
        purchase = next_purchase(offers, frozenset(), paid)
        # Of two ways to on-demand the plain one: "spot-first" may find a spot one by then.
        if purchase and (purchase.market not in bought or word == purchase.market.value):
            bought[purchase.market] = (word, purchase)
    for market, (word, purchase) in bought.items():
        prices = {offer.usd_per_hour for offer in purchase.offers}
        yield Alternative(
            profile=candidate.slug,
            name=candidate.name,
            market=market,
            usd_per_hour=min((usd for usd in prices if usd is not None), default=None),
            dearer_may_come=len(prices) > 1,
            user_options={"profile": candidate.slug, "market": word},
        )


def _with_choices(alternative: Alternative, chosen: Mapping[str, object]) -> Alternative:
    """With the disk and the idle time that were chosen: they are its profile's to allow. Not with
    a price limit: this one's price is on its button."""
    replaced = ("profile", "market", "max_usd_per_hour")
    kept = {name: str(value) for name, value in chosen.items() if name not in replaced}
    return replace(alternative, user_options=alternative.user_options | kept)


def _price(alternative: Alternative) -> tuple[float, str, str]:
    usd = alternative.usd_per_hour
    return inf if usd is None else usd, alternative.name, alternative.market


def _is_too_dear(usd: float | None, reference: float | None) -> bool:
    return usd is not None and reference is not None and usd > MAX_TIMES * reference


def _distance(usd: float | None, reference: float | None) -> float:
    """How many times dearer or cheaper, either way alike; unknown is far."""
    if not usd or not reference:
        return inf
    return abs(log(usd / reference))

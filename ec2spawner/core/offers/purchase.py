"""What to buy first and what to try next. Pure: offers and marks in, a purchase out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from ...wire import Market

PRICE_STEP = 1.05
"""Prices within one step of 5 % are alike, and the offer that is interrupted less comes first."""

_LOG_STEP = math.log(PRICE_STEP)

MAX_PURCHASES = 4
"""Launch calls of one round: what is paid for, spot, on-demand, and spot that costs more. Those for
places of capacity reservations do not count: each is bounded by its places."""


class OfferKey(NamedTuple):
    """What an offer is called: prices change, this does not."""

    market: Market
    instance_type: str
    zone: str
    reservation: str = ""
    """Id of the capacity reservation whose place it is; empty is capacity of the market."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One buyable thing."""

    market: Market
    instance_type: str
    zone: str
    usd_per_hour: float | None
    """None is unknown, and comes after every known price."""
    interruption_band: int | None = None
    """Share that AWS reclaims in a month: 0 `<5 %`, 1 `5-10 %`, 2 `10-15 %`, 3 `15-20 %`,
    4 `>20 %`; None is unknown. On-demand is never reclaimed: 0."""
    paid: bool = False
    """A reservation or plan pays for it already, used or not: always on-demand."""
    reservation: str = ""
    """Id of the capacity reservation whose place it is: on-demand, and `paid` unless the admin
    wants spot to come first. Its price is what a lease is charged, though the place costs the same
    unused."""
    is_block: bool = False
    """Whether that reservation is a Capacity Block."""
    until: datetime | None = None
    """By when a server has to leave it, UTC; None is never."""

    @property
    def key(self) -> OfferKey:
        """Identifies the offer across price changes."""
        return OfferKey(self.market, self.instance_type, self.zone, self.reservation)

    @property
    def market_name(self) -> str:
        """For people: `spot`, `on-demand`, `on-demand in reservation cr-...`, or `Capacity Block
        cr-...`."""
        if self.is_block:
            return f"Capacity Block {self.reservation}"
        return (
            f"{self.market} in reservation {self.reservation}" if self.reservation else self.market
        )


@dataclass(frozen=True, slots=True)
class Purchase:
    """One launch call to make: offers of one market, best first, never empty."""

    market: Market
    offers: tuple[Offer, ...]
    at_most: int | None = None
    """No more instances than this: what a reservation still pays for. None is no bound."""


def ranked(offers: Iterable[Offer], hinted: Set[OfferKey] = frozenset()) -> tuple[Offer, ...]:
    """The offers, best first: a total order, whatever order they come in.

    What is paid for already, places of capacity reservations before discounts, because a discount
    also covers an instance in a reservation; then what EC2 itself says it has (`hinted`); then by
    price, in steps of 5 % within which a lower interruption band comes first. Unknown comes after
    known.
    """

    def rank(offer: Offer) -> tuple[object, ...]:
        band = offer.interruption_band
        return (
            not offer.paid,
            not (offer.paid and offer.reservation),
            offer.key not in hinted,
            _step(offer.usd_per_hour),
            math.inf if band is None else band,
            offer.usd_per_hour or 0.0,
            not offer.reservation,
            offer.instance_type,
            offer.zone,
            offer.market,
            offer.reservation,
        )

    return tuple(sorted(offers, key=rank))


def affordable(offers: Iterable[Offer], max_usd_per_hour: float | None) -> tuple[Offer, ...]:
    """The offers that cost at most so much, USD/hour, in their order; None is no limit.

    Within a limit an unknown price is none that can be afforded.
    """
    if max_usd_per_hour is None:
        return tuple(offers)
    return tuple(
        offer
        for offer in offers
        if offer.usd_per_hour is not None and offer.usd_per_hour <= max_usd_per_hour
    )


def worth_asking(offers: Collection[Offer]) -> tuple[Offer, ...]:
    """The offers, in their order, without spot that costs as much as the cheapest on-demand.

    A price that is not known speaks against nothing. What is paid for sets no price, nor does a
    reservation: there are only so many places.
    """
    cheapest = min(
        (
            offer.usd_per_hour
            for offer in offers
            if offer.market is Market.ON_DEMAND
            and not offer.paid
            and not offer.reservation
            and offer.usd_per_hour is not None
        ),
        default=math.inf,
    )
    return tuple(
        offer
        for offer in offers
        if offer.market is Market.ON_DEMAND
        or offer.usd_per_hour is None
        or offer.usd_per_hour < cheapest
    )


def next_purchase(
    open_offers: Sequence[Offer],
    asked: Set[OfferKey],
    paid_left: Mapping[str, int],
    max_usd_per_hour: float | None = None,
) -> Purchase | None:
    """The next launch call of a round; None when there is nothing left to ask for.

    What is paid for comes first, as far as it goes: `paid_left` is how many places each instance
    type, and each capacity reservation by its id, still has, and the purchase is bounded so that no
    choice of EC2's among its types exceeds them. Then all that is worth asking for in the market of
    the cheapest offer. A place of a reservation that is not `paid` comes when it is on-demand's
    turn. One reservation is one purchase: a launch targets one.

    `open_offers` are in the order of `ranked`, `asked` is what the round has asked for. What
    brought all that its bound allowed has more to give at the ordinary price: it does not count
    as asked. Nothing above `max_usd_per_hour` is bought; None is no limit.
    """
    left = [offer for offer in open_offers if offer.key not in asked]
    within = affordable(left, max_usd_per_hour)
    places = [
        each for each in within if each.reservation and paid_left.get(each.reservation, 0) > 0
    ]
    first = next((offer for offer in places if offer.paid), None)
    if first is not None:
        return _of_place(first, paid_left)
    paid = tuple(
        offer
        for offer in within
        if offer.paid and not offer.reservation and paid_left.get(offer.instance_type, 0) > 0
    )
    if paid:
        at_most = min(paid_left[offer.instance_type] for offer in paid)
        return Purchase(Market.ON_DEMAND, paid, at_most)
    ordinary = [_without_place(offer) for offer in left if not offer.reservation]
    worth = affordable(worth_asking(ordinary), max_usd_per_hour)
    market = _market_of_cheapest(worth) if worth else Market.ON_DEMAND
    if places and market is Market.ON_DEMAND:
        return _of_place(places[0], paid_left)
    return Purchase(market, tuple(x for x in worth if x.market is market)) if worth else None


def _of_place(offer: Offer, places_left: Mapping[str, int]) -> Purchase:
    """As many of a reservation as it has places."""
    return Purchase(Market.ON_DEMAND, (offer,), places_left[offer.reservation])


def _market_of_cheapest(offers: Collection[Offer]) -> Market:
    """Of one price, spot.

    A spot price that is not known is at most the on-demand price of its type: no call of ours
    sets another maximum. So where no price could be read yet, spot is still tried first.
    """
    on_demand = {
        offer.instance_type: offer.usd_per_hour
        for offer in offers
        if offer.market is Market.ON_DEMAND
    }

    def cost(offer: Offer) -> tuple[float, bool]:
        usd = offer.usd_per_hour
        if usd is None:
            usd = on_demand.get(offer.instance_type)
        return math.inf if usd is None else usd, offer.market is Market.ON_DEMAND

    return min(offers, key=cost).market


def _without_place(offer: Offer) -> Offer:
    """An offer whose paid places are all taken: it costs more than the agreed rate."""
    return replace(offer, usd_per_hour=None, paid=False) if offer.paid else offer


def _step(usd_per_hour: float | None) -> float:
    """The step of a price. Steps are fixed: "within 5 % of its neighbour" would be no order."""
    if usd_per_hour is None:
        return math.inf
    return math.floor(math.log(usd_per_hour) / _LOG_STEP) if usd_per_hour > 0 else -math.inf

"""Properties of the ranking and of the round: what is bought first, what next, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from ec2spawner.core.offers.purchase import (
    MAX_PURCHASES,
    PRICE_STEP,
    Offer,
    OfferKey,
    Purchase,
    affordable,
    next_purchase,
    ranked,
    worth_asking,
)
from ec2spawner.wire import Market

TYPES = ("g4dn.xlarge", "g5.xlarge", "p4d.24xlarge")
ZONES = ("us-east-1a", "us-east-1b")
PRICES = (0.21, 0.215, 0.5, 0.526, 0.526, 1.006, 32.77)
"""Some equal, some within one step, some far apart."""

some_keys = st.builds(
    OfferKey,
    st.sampled_from(list(Market)),
    st.sampled_from(TYPES),
    st.sampled_from(ZONES),
    reservation=st.just(""),
)


@st.composite
def some_offers(draw: st.DrawFn, paid: bool = True, known: bool = False) -> list[Offer]:
    """Offers of different keys, in any order; what a plan pays for is on-demand."""
    found = []
    prices = st.sampled_from(PRICES) if known else st.sampled_from([None, *PRICES])
    for key in draw(st.lists(some_keys, max_size=10, unique=True)):
        spot = key.market is Market.SPOT
        found.append(
            Offer(
                *key[:3],
                usd_per_hour=draw(prices),
                interruption_band=draw(st.sampled_from([None, 0, 1, 4])) if spot else 0,
                paid=paid and not spot and draw(st.booleans()),
            )
        )
    return found


some_hints = st.frozensets(some_keys)
some_places = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 3))


def spot(usd: float | None, instance_type: str = "g5.xlarge", zone: str = "us-east-1a",
         band: int | None = 1) -> Offer:  # fmt: skip
    return Offer(Market.SPOT, instance_type, zone, usd, band)


def on_demand(
    usd: float | None,
    instance_type: str = "g5.xlarge",
    zone: str = "us-east-1a",
    paid: bool = False,
) -> Offer:
    return Offer(Market.ON_DEMAND, instance_type, zone, usd, 0, paid)


def bought(purchase: Purchase | None) -> tuple[Offer, ...]:
    assert purchase is not None
    return purchase.offers


# --- a price limit ----------------------------------------------------------------------------


@given(some_offers(), st.sets(some_keys), some_places, st.sampled_from(PRICES))
def test_nothing_above_the_price_limit_is_bought(
    offers: list[Offer], asked: set[OfferKey], places: dict[str, int], limit: float
) -> None:
    purchase = next_purchase(ranked(offers), asked, places, limit)
    for offer in purchase.offers if purchase else ():
        assert offer.usd_per_hour is not None, "an unknown price may be above it"
        assert offer.usd_per_hour <= limit
    left = [offer for offer in offers if offer.key not in asked and not offer.paid]
    if affordable(worth_asking(left), limit):
        assert purchase is not None, "what can be afforded is bought"


def test_a_used_discount_leaves_an_unknown_price() -> None:
    paid = on_demand(0.20, paid=True)
    assert bought(next_purchase([paid], set(), {"g5.xlarge": 1}, 0.30)) == (paid,)
    assert next_purchase([paid], set(), {}, 0.30) is None


# --- the order --------------------------------------------------------------------------------


@given(some_offers(), some_hints, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_input_order(
    offers: list[Offer], hinted: frozenset[OfferKey], random: Random
) -> None:
    found = ranked(offers, hinted)
    assert sorted(found, key=repr) == sorted(offers, key=repr)
    random.shuffle(offers)
    assert ranked(offers, hinted) == found


@given(some_offers(), some_hints)
def test_offers_have_a_total_order(offers: list[Offer], hinted: frozenset[OfferKey]) -> None:
    """Any two offers stand as they do among all others: antisymmetric, and so transitive."""
    found = ranked(offers, hinted)
    for place, first in enumerate(found):
        for second in found[place + 1 :]:
            assert ranked([second, first], hinted) == (first, second)


@given(some_offers(), some_hints)
def test_reasons_are_ordered(offers: list[Offer], hinted: frozenset[OfferKey]) -> None:
    """A better neighbour is never behind: paid, hinted, known, and cheaper by more than a step."""
    for before, after in pairwise(ranked(offers, hinted)):
        assert before.paid >= after.paid
        if before.paid != after.paid:
            continue
        assert (before.key in hinted) >= (after.key in hinted)
        if (before.key in hinted) != (after.key in hinted):
            continue
        if before.usd_per_hour is None:
            assert after.usd_per_hour is None
        elif after.usd_per_hour is not None:
            assert before.usd_per_hour < after.usd_per_hour * PRICE_STEP


def test_within_a_step_of_price_the_steadier_offer_comes_first() -> None:
    low = PRICE_STEP**-29.9
    risky, steady = (
        spot(low, zone="us-east-1a", band=4),
        spot(low * 1.02, zone="us-east-1b", band=0),
    )
    assert ranked([risky, steady]) == (steady, risky)
    dearer = replace(steady, usd_per_hour=low * 1.1)
    assert ranked([dearer, risky]) == (risky, dearer)


def test_within_a_step_of_equal_risk_the_cheaper_offer_comes_first() -> None:
    low = PRICE_STEP**-29.9
    cheap, dear = spot(low, zone="us-east-1b"), spot(low * 1.02, zone="us-east-1a")
    assert ranked([dear, cheap]) == (cheap, dear)


def test_unknown_risk_comes_after_every_known_one() -> None:
    unknown, worst = spot(0.5, band=None), spot(0.5, zone="us-east-1b", band=4)
    assert ranked([unknown, worst]) == (worst, unknown)


def test_a_free_offer_comes_first() -> None:
    free, cheap = on_demand(0.0, zone="us-east-1b"), on_demand(1e-9)
    assert ranked([cheap, free]) == (free, cheap)


# --- what is worth asking for -----------------------------------------------------------------


@given(some_offers())
def test_spot_that_is_not_cheaper_than_on_demand_is_dropped(offers: list[Offer]) -> None:
    cheapest = min(
        (
            offer.usd_per_hour
            for offer in offers
            if offer.market is Market.ON_DEMAND
            and not offer.paid
            and offer.usd_per_hour is not None
        ),
        default=math.inf,
    )
    found = worth_asking(offers)
    assert found == tuple(offer for offer in offers if offer in found), "the order is kept"
    for offer in offers:
        dear = offer.usd_per_hour is not None and offer.usd_per_hour >= cheapest
        assert (offer not in found) == (offer.market is Market.SPOT and dear)


# --- one purchase -----------------------------------------------------------------------------


@given(some_offers(), st.frozensets(some_keys), some_places)
def test_a_purchase_has_untried_open_offers_of_one_market_best_first(
    offers: list[Offer], asked: frozenset[OfferKey], places: Mapping[str, int]
) -> None:
    open_offers = ranked(offers)
    purchase = next_purchase(open_offers, asked, places)
    if purchase is None:
        assert {offer.key for offer in offers} <= asked
        return
    found = [offer.key for offer in purchase.offers]
    assert found
    assert {key.market for key in found} == {purchase.market}
    assert asked.isdisjoint(found)
    assert found == [offer.key for offer in open_offers if offer.key in found]


@given(some_offers(), st.frozensets(some_keys), some_places)
def test_paid_places_come_first_and_never_more_than_are_left(
    offers: list[Offer], asked: frozenset[OfferKey], places: Mapping[str, int]
) -> None:
    purchase = next_purchase(ranked(offers), asked, places)
    paid = {
        offer.key
        for offer in offers
        if offer.paid and offer.key not in asked and places.get(offer.instance_type, 0)
    }
    if not paid:
        assert purchase is None or purchase.at_most is None
        return
    assert {offer.key for offer in bought(purchase)} == paid
    assert purchase is not None
    assert purchase.at_most is not None
    assert purchase.at_most >= 1
    # EC2 may take them all from one type.
    assert all(purchase.at_most <= places[key.instance_type] for key in paid)


@given(some_offers(paid=False, known=True), st.frozensets(some_keys))
def test_no_dearer_market_while_a_cheaper_one_is_open(
    offers: list[Offer], asked: frozenset[OfferKey]
) -> None:
    left = {offer.key: offer.usd_per_hour or 0.0 for offer in offers if offer.key not in asked}
    assume(left)
    purchase = next_purchase(ranked(offers), asked, {})
    prices = [left[offer.key] for offer in bought(purchase)]
    assert min(prices) == min(left.values())
    # And a spot call asks for nothing that on-demand undercuts: EC2 chooses among its offers.
    if bought(purchase)[0].market is Market.SPOT:
        others = [usd for key, usd in left.items() if key.market is Market.ON_DEMAND]
        assert max(prices) < min(others, default=math.inf)


def test_price_that_rises_above_on_demand_flips_the_order() -> None:
    other = on_demand(1.006)
    assert bought(next_purchase(ranked([spot(0.4), other]), frozenset(), {})) == (spot(0.4),)
    assert bought(next_purchase(ranked([spot(1.1), other]), frozenset(), {})) == (other,)


def test_spot_that_costs_more_is_the_last_resort() -> None:
    dear, other = spot(1.1), on_demand(1.006)
    assert bought(next_purchase([dear, other], {other.key}, {})) == (dear,)
    assert bought(next_purchase([dear], frozenset(), {})) == (dear,)


def test_spot_of_unknown_price_is_tried_before_on_demand_of_its_type() -> None:
    """A hub that has just started knows no spot price: it is at most the on-demand price."""
    offers = ranked([spot(None), on_demand(1.006)])
    assert bought(next_purchase(offers, frozenset(), {})) == (spot(None),)


def test_spot_of_unknown_price_may_cost_more_than_another_type_on_demand() -> None:
    offers = ranked(
        [spot(None, "p4d.24xlarge"), on_demand(32.77, "p4d.24xlarge"), on_demand(1.006)]
    )
    purchase = next_purchase(offers, frozenset(), {})
    assert purchase is not None
    assert purchase.market is Market.ON_DEMAND


def test_without_any_price_spot_comes_first() -> None:
    offers = ranked([on_demand(None), spot(None)])
    assert bought(next_purchase(offers, frozenset(), {})) == (spot(None),)


def test_agreed_rate_without_a_place_is_no_price() -> None:
    """What costs 0.1 for two costs more for the third: it is neither cheap nor paid."""
    offers = ranked([on_demand(0.1, paid=True), spot(0.4)])
    first = next_purchase(offers, frozenset(), {"g5.xlarge": 2})
    assert first == Purchase(Market.ON_DEMAND, (on_demand(0.1, paid=True),), at_most=2)
    second = next_purchase(offers, frozenset(), {"g5.xlarge": 0})
    assert second == Purchase(Market.SPOT, (spot(0.4),))
    third = next_purchase(offers, {spot(0.4).key}, {"g5.xlarge": 0})
    assert third == Purchase(Market.ON_DEMAND, (on_demand(None),))


# --- a whole round ----------------------------------------------------------------------------


def purchases_of(
    offers: Iterable[Offer],
    wanted: int,
    places: Mapping[str, int],
    brings: Callable[[Purchase, int], int],
) -> list[Purchase]:
    """A round as the launch controller makes it, without the bound on its calls."""
    asked: set[OfferKey] = set()
    left = dict(places)
    made: list[Purchase] = []
    open_offers = ranked(offers)
    while wanted and (purchase := next_purchase(open_offers, asked, left)):
        asking = min(wanted, purchase.at_most or wanted)
        came = brings(purchase, asking)
        wanted -= came
        made.append(purchase)
        if purchase.at_most is not None and came == purchase.at_most:
            for kind in {offer.instance_type for offer in purchase.offers}:
                left[kind] -= came
        else:
            asked |= {offer.key for offer in purchase.offers}
    return made


@given(some_offers(), st.integers(1, 5), st.data())
def test_round_terminates_and_requests_nothing_twice(
    offers: list[Offer], wanted: int, data: st.DataObject
) -> None:
    made = purchases_of(
        offers, wanted, {}, lambda _, asking: data.draw(st.integers(0, asking), label="came")
    )
    assert len(made) < MAX_PURCHASES, "one call is kept for what is paid for"
    asked = [offer.key for purchase in made for offer in purchase.offers]
    assert len(asked) == len(set(asked))


@given(some_offers(), some_places)
def test_round_with_everything_sold_out_requests_each_offer_once(
    offers: list[Offer], places: Mapping[str, int]
) -> None:
    made = purchases_of(offers, 1, places, lambda *_: 0)
    assert len(made) <= MAX_PURCHASES
    asked = [offer.key for purchase in made for offer in purchase.offers]
    assert sorted(asked) == sorted(offer.key for offer in offers)


@given(some_offers(), st.integers(1, 9), some_places, st.data())
def test_round_never_takes_more_paid_places_than_there_are(
    offers: list[Offer], wanted: int, places: Mapping[str, int], data: st.DataObject
) -> None:
    """Whatever comes, and from whichever of the types: EC2 chooses."""
    left = dict(places)

    def brings(purchase: Purchase, asking: int) -> int:
        came: int = data.draw(st.integers(0, asking), label="came")
        if purchase.at_most is not None:
            kind = data.draw(st.sampled_from(purchase.offers), label="from").instance_type
            left[kind] -= came
        return came

    made = purchases_of(offers, wanted, places, brings)
    assert all(number >= 0 for number in left.values())
    ordinary = [offer.key for purchase in made if not purchase.at_most for offer in purchase.offers]
    assert len(ordinary) == len(set(ordinary))

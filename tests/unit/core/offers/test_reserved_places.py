"""Places of capacity reservations among the offers: when they are bought, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers.launch_errors import ErrorClass, LaunchError
from ec2spawner.core.offers.purchase import Offer, OfferKey, Purchase, next_purchase, ranked
from ec2spawner.core.offers.sold_out import MARKED_FOR, SoldOut
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
A, B = "us-east-1a", "us-east-1b"
T4 = "g4dn.xlarge"
SPOT = Offer(Market.SPOT, T4, A, 0.21, 1)
ON_DEMAND = Offer(Market.ON_DEMAND, T4, A, 0.526, 0)
FIRST = replace(ON_DEMAND, paid=True, reservation="cr-1")
"""A place that comes before spot."""
AFTER_SPOT = replace(FIRST, paid=False)

EVERY = (
    SPOT,
    ON_DEMAND,
    replace(ON_DEMAND, instance_type="g5.xlarge", usd_per_hour=1.006),
    replace(ON_DEMAND, instance_type="g5.xlarge", zone=B, usd_per_hour=0.6, paid=True),
    FIRST,
    replace(FIRST, zone=B, reservation="cr-2"),
    replace(AFTER_SPOT, reservation="cr-3"),
    replace(AFTER_SPOT, usd_per_hour=None, zone=B, reservation="cr-4"),
)
some_offers = st.lists(st.sampled_from(EVERY), unique=True)
some_places = st.dictionaries(
    st.sampled_from(("cr-1", "cr-2", "cr-3", "cr-4", "g5.xlarge")), st.integers(0, 3)
)


def test_a_place_that_is_paid_for_comes_before_spot_and_never_more_than_are_left() -> None:
    offers = ranked([SPOT, ON_DEMAND, FIRST])
    assert offers[0] == FIRST
    assert next_purchase(offers, set(), {"cr-1": 2}) == Purchase(Market.ON_DEMAND, (FIRST,), 2)
    assert next_purchase(offers, set(), {"cr-1": 0}) == Purchase(Market.SPOT, (SPOT,))
    assert next_purchase(offers, {FIRST.key}, {"cr-1": 2}) == Purchase(Market.SPOT, (SPOT,))


def test_a_place_after_spot_comes_before_the_markets_own_capacity() -> None:
    offers = ranked([SPOT, ON_DEMAND, AFTER_SPOT])
    places = {"cr-1": 1}
    assert next_purchase(offers, set(), places) == Purchase(Market.SPOT, (SPOT,))
    second = next_purchase(offers, {SPOT.key}, places)
    assert second == Purchase(Market.ON_DEMAND, (AFTER_SPOT,), 1)
    third = next_purchase(offers, {SPOT.key, AFTER_SPOT.key}, places)
    assert third == Purchase(Market.ON_DEMAND, (ON_DEMAND,))


def test_a_place_after_spot_is_bought_where_nothing_else_is_left() -> None:
    found = next_purchase([AFTER_SPOT], set(), {"cr-1": 1})
    assert found == Purchase(Market.ON_DEMAND, (AFTER_SPOT,), 1)
    assert next_purchase([AFTER_SPOT], set(), {}) is None


def test_a_place_comes_before_a_discount_which_covers_it_too() -> None:
    discounted = replace(ON_DEMAND, usd_per_hour=0.3, paid=True)
    assert ranked([discounted, FIRST]) == (FIRST, discounted)
    found = next_purchase(ranked([discounted, FIRST]), set(), {"cr-1": 1, T4: 1})
    assert found == Purchase(Market.ON_DEMAND, (FIRST,), 1)


def test_a_place_is_within_the_price_limit_at_what_its_lease_is_charged() -> None:
    offers = ranked([SPOT, FIRST])
    assert next_purchase(offers, set(), {"cr-1": 1}, 0.3) == Purchase(Market.SPOT, (SPOT,))


def test_a_place_does_not_make_spot_too_dear_to_ask_for() -> None:
    cheap = replace(AFTER_SPOT, usd_per_hour=0.1)
    assert next_purchase(ranked([SPOT, cheap]), set(), {"cr-1": 1}) == Purchase(
        Market.SPOT, (SPOT,)
    )


@given(some_offers, some_places, st.integers(1, 9), st.data())
def test_a_round_ends_and_takes_no_place_that_is_not_there(
    offers: list[Offer], places: Mapping[str, int], wanted: int, data: st.DataObject
) -> None:
    left, asked, open_offers = dict(places), set[OfferKey](), ranked(offers)
    while wanted and (purchase := next_purchase(open_offers, asked, left)):
        reserved = {each.reservation for each in purchase.offers}
        assert len(reserved) == 1, "a launch targets one reservation or none"
        assert asked.isdisjoint(each.key for each in purchase.offers)
        (reservation,) = reserved
        asking = min(wanted, purchase.at_most or wanted)
        came = data.draw(st.integers(0, asking))
        wanted -= came
        for place in (reservation or each.instance_type for each in purchase.offers):
            if purchase.at_most is not None:
                assert purchase.at_most <= left[place]
                left[place] -= came
        if came < asking or purchase.at_most is None:
            asked |= {each.key for each in purchase.offers}


@given(some_offers, some_places)
def test_what_is_ordinary_is_bought_only_once_no_paid_place_is_left(
    offers: list[Offer], places: Mapping[str, int]
) -> None:
    purchase = next_purchase(ranked(offers), set(), places)
    paid = [x for x in offers if x.paid and places.get(x.reservation or x.instance_type, 0)]
    assert all(x.paid for x in purchase.offers if paid) if purchase else not paid
    usable = [x for x in offers if not x.reservation or places.get(x.reservation, 0)]
    assert (purchase is None) == (not usable)


# --- what is sold out ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "ReservationCapacityExceeded",
        "InsufficientInstanceCapacity",
        "InvalidCapacityReservationId.NotFound",
        "VcpuLimitExceeded",
        "Unsupported",
        "UnauthorizedOperation",
        "SomethingNew",
    ],
)
def test_a_refused_place_says_nothing_of_the_markets_capacity(code: str) -> None:
    sold_out = SoldOut()
    error = LaunchError(code, "no", T4, "subnet-a", A)
    sold_out.learn(
        Market.ON_DEMAND, ((T4, "subnet-a"),), (error,), (), {"subnet-a": A}, NOW, "cr-1"
    )
    mark = sold_out.mark_of(FIRST.key, NOW)
    assert mark is not None
    assert mark.code == code
    others = (SPOT, ON_DEMAND, replace(FIRST, reservation="cr-2"))
    assert [sold_out.mark_of(each.key, NOW) for each in others] == [None, None, None]
    assert sold_out.mark_of(FIRST.key, NOW + MARKED_FOR[mark.error_class]) is None


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_capacity_that_is_sold_out_says_nothing_of_a_reservation(code: str) -> None:
    sold_out = SoldOut()
    error = LaunchError(code, "no", T4, "subnet-a", A)
    sold_out.learn(Market.ON_DEMAND, ((T4, "subnet-a"),), (error,), (), {"subnet-a": A}, NOW)
    assert sold_out.mark_of(ON_DEMAND.key, NOW) is not None
    assert sold_out.mark_of(FIRST.key, NOW) is None


def test_a_type_that_cannot_work_with_the_image_cannot_in_a_reservation_either() -> None:
    sold_out = SoldOut()
    sold_out.learn_unusable(T4, "ami-1", (A,), "", NOW)
    mark = sold_out.mark_of(FIRST.key, NOW, "ami-1")
    assert mark is not None
    assert mark.error_class is ErrorClass.UNUSABLE

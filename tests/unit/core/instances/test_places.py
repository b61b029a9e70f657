"""Places of the pool in the matching: they come after all leases, and cost none of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.matching import Need, Supply, balance, fits
from ec2spawner.wire import Market
from tests.unit.core.instances.test_matching import NOW, needs_of, supplies_of

prices = st.none() | st.sampled_from([0.1, 0.2, 0.3])


@st.composite
def limited_needs(draw: st.DrawFn) -> list[Need]:
    """Some have a limit, and so a base key of their own."""
    return [
        each
        if (limit := draw(prices)) is None
        else replace(each, base_key="limited", priced_key=each.base_key, usd_per_hour=limit)
        for each in draw(needs_of(4))
    ]


@st.composite
def places_of(draw: st.DrawFn) -> list[Need]:
    found = draw(needs_of(4))
    return [replace(each, lease_id=f"place-{each.lease_id}", is_place=True) for each in found]


@st.composite
def pool_supplies(draw: st.DrawFn) -> list[Supply]:
    return [
        replace(each, is_place=draw(st.booleans()), usd_per_hour=draw(prices))
        for each in draw(supplies_of(5))
    ]


@given(limited_needs(), places_of(), pool_supplies())
def test_a_place_never_makes_a_lease_wait(
    leases: list[Need], places: list[Need], supplies: list[Supply]
) -> None:
    ids = {lease.lease_id for lease in leases}
    without, together = balance(leases, supplies), balance([*leases, *places], supplies)
    assert ids & set(together.missing) == set(without.missing)


@given(limited_needs(), places_of(), pool_supplies())
def test_no_lease_counts_on_what_the_pool_has_only_asked_for(
    leases: list[Need], places: list[Need], supplies: list[Supply]
) -> None:
    own = [each for each in supplies if not each.is_place]
    ids = {lease.lease_id for lease in leases}
    found = balance([*leases, *places], supplies)
    assert ids & set(found.missing) == set(balance(leases, own).missing)


@given(limited_needs(), places_of(), pool_supplies())
def test_each_supply_is_a_leases_a_places_or_surplus(
    leases: list[Need], places: list[Need], supplies: list[Supply]
) -> None:
    found = balance([*leases, *places], supplies)
    served = [each for each in leases if each.lease_id not in found.missing]
    filled = [each for each in places if each.lease_id not in found.missing]
    assert len(found.in_places) == len(filled)
    assert not set(found.in_places) & set(found.surplus)
    assert len(supplies) == len(served) + len(filled) + len(found.surplus)


def test_a_limit_takes_an_instance_of_the_pool_that_costs_no_more_now() -> None:
    spot = frozenset({Market.SPOT})
    waiting = Supply("i-1", "image", frozenset({"g4"}), frozenset("a"), spot, usd_per_hour=0.2)
    lease = Need(
        "lease",
        "image with a limit",
        frozenset({"g4"}),
        frozenset("a"),
        spot,
        requested_at=NOW,
        priced_key="image",
        usd_per_hour=0.2,
    )
    assert fits(lease, waiting)
    assert not fits(lease, replace(waiting, usd_per_hour=0.201))
    assert not fits(lease, replace(waiting, usd_per_hour=None))
    assert not fits(lease, replace(waiting, base_key="other"))
    assert not fits(replace(lease, markets=frozenset({Market.ON_DEMAND})), waiting)

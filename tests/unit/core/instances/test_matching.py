"""Properties of the matching: never a misfit, and no better order serves more needs."""

from __future__ import annotations

import random
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ec2spawner.core.instances.matching import Balance, Need, Supply, balance, fits, lease_for
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
BOTH = frozenset(Market)

types = st.frozensets(st.sampled_from(["g4", "g5", "p4"]), min_size=1)
zones = st.frozensets(st.sampled_from(["a", "b"]), min_size=1)
markets = st.frozensets(st.sampled_from(list(Market)), min_size=1)
bases = st.sampled_from(["image-1", "image-2"])


@st.composite
def needs_of(draw: st.DrawFn, max_size: int = 6) -> list[Need]:
    drawn = draw(st.lists(st.tuples(bases, types, zones, markets), max_size=max_size))
    order = draw(st.permutations(range(len(drawn))))
    return [
        Need(f"need-{n}", *fields, requested_at=NOW + timedelta(seconds=order[n]))
        for n, fields in enumerate(drawn)
    ]


@st.composite
def supplies_of(draw: st.DrawFn, max_size: int = 6) -> list[Supply]:
    drawn = draw(st.lists(st.tuples(bases, types, zones, markets), max_size=max_size))
    return [Supply(f"supply-{n}", *fields) for n, fields in enumerate(drawn)]


def need(name: str, *instance_types: str, waited: float = 0) -> Need:
    since = NOW - timedelta(seconds=waited)
    return Need(name, "image", frozenset(instance_types), frozenset("a"), BOTH, since)


def supply(name: str, *instance_types: str) -> Supply:
    market = frozenset({Market.SPOT})
    return Supply(name, "image", frozenset(instance_types), frozenset("a"), market)


def can_all_be_served(needs: Sequence[Need], supplies: Sequence[Supply]) -> bool:
    """By trying every order: slow, and obviously right."""
    return any(
        all(fits(need, chosen) for need, chosen in zip(needs, order, strict=True))
        for order in permutations(supplies, len(needs))
    )


@given(needs_of(5), supplies_of(5))
def test_the_longest_waiting_of_all_servable_needs_are_served(
    needs: list[Need], supplies: list[Supply]
) -> None:
    """This holds more than a maximum matching: no need is skipped for one that waited less."""
    served: list[Need] = []
    for candidate in sorted(needs, key=lambda need: need.requested_at):
        if can_all_be_served([*served, candidate], supplies):
            served.append(candidate)
    found = balance(needs, supplies)
    names = {need.lease_id for need in needs}
    assert names - set(found.missing) == {need.lease_id for need in served}
    assert len(found.surplus) == len(supplies) - len(served)


@given(needs_of(), supplies_of())
def test_served_needs_and_kept_supplies_are_in_balance(
    needs: list[Need], supplies: list[Supply]
) -> None:
    found = balance(needs, supplies)
    kept = [each for each in supplies if each.supply_id not in found.surplus]
    served = [each for each in needs if each.lease_id not in found.missing]
    assert balance(served, kept) == balance([], [])


@given(needs_of(), supplies_of())
def test_no_need_is_missing_while_a_surplus_supply_fits(
    needs: list[Need], supplies: list[Supply]
) -> None:
    found = balance(needs, supplies)
    missing = [each for each in needs if each.lease_id in found.missing]
    surplus = [each for each in supplies if each.supply_id in found.surplus]
    assert not any(fits(want, have) for want in missing for have in surplus)


@given(needs_of(), supplies_of(), st.randoms(use_true_random=False))
def test_the_order_of_the_arguments_does_not_matter(
    needs: list[Need], supplies: list[Supply], shuffled: random.Random
) -> None:
    found = balance(needs, supplies)
    shuffled.shuffle(needs)
    shuffled.shuffle(supplies)
    assert set(balance(needs, supplies).missing) == set(found.missing)


def simple_balance(needs: Sequence[Need], supplies: Sequence[Supply]) -> Balance:
    """The same matching, one need and one supply at a time: slow, and short enough to be read."""
    holder: dict[str, Need] = {}

    def place(need: Need) -> bool:
        reached: dict[str, tuple[Need, str | None]] = {}
        queue: list[tuple[Need, str | None]] = [(need, None)]
        for candidate, lets_go in queue:
            for supply in supplies:
                found: str | None = supply.supply_id
                if found in reached or not fits(candidate, supply):
                    continue
                reached[supply.supply_id] = (candidate, lets_go)
                if found in holder:
                    queue.append((holder[found], found))
                    continue
                while found is not None:
                    holder[found], found = reached[found]
                return True
        return False

    waiting = sorted(needs, key=lambda need: (need.requested_at, need.lease_id))
    missing = tuple(need.lease_id for need in waiting if not place(need))
    return Balance(missing, tuple(s.supply_id for s in supplies if s.supply_id not in holder))


def simple_lease_for(claimant: Supply, needs: Sequence[Need], others: Sequence[Supply]) -> Any:
    return min(
        (need for need in needs if fits(need, claimant)),
        key=lambda need: (
            sum(fits(need, other) for other in others),
            need.requested_at,
            need.lease_id,
        ),
        default=None,
    )


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Need], list[Supply]]:
    """Many who want few kinds of instances: room must be made, and along several steps."""
    wanted = draw(st.lists(st.tuples(types, zones, st.integers(0, 9)), min_size=6, max_size=15))
    kinds = st.tuples(st.sampled_from(["g4", "g5", "p4"]), st.sampled_from(["a", "b"]))
    there = draw(st.lists(kinds, min_size=6, max_size=15))
    return [
        Need(f"need-{n}", "image", names, where, BOTH, NOW + timedelta(seconds=order))
        for n, (names, where, order) in enumerate(wanted)
    ], [
        replace(supply(f"supply-{n}", name), zones=frozenset(zone))
        for n, (name, zone) in enumerate(there)
    ]


@settings(max_examples=500)
@given(st.one_of(crowds(), st.tuples(needs_of(12), supplies_of(12))))
def test_matching_by_shapes_gives_what_matching_one_by_one_gives(
    crowd: tuple[list[Need], list[Supply]],
) -> None:
    needs, supplies = crowd
    assert balance(needs, supplies) == simple_balance(needs, supplies)
    for claimant in supplies[:5]:
        assert lease_for(claimant, needs, supplies) == simple_lease_for(claimant, needs, supplies)


@given(supplies_of(), needs_of())
def test_lease_for_gives_only_what_fits(supplies: list[Supply], needs: list[Need]) -> None:
    for claimant in supplies:
        chosen = lease_for(claimant, needs, supplies)
        fitting = [each for each in needs if fits(each, claimant)]
        assert (chosen is None) == (fitting == [])
        assert chosen is None or chosen in fitting


def test_a_flexible_lease_makes_room_for_a_picky_one() -> None:
    needs = [need("flexible", "g4", "g5", waited=9), need("picky", "g4")]
    assert balance(needs, [supply("one", "g4"), supply("two", "g5")]).missing == ()


def test_a_pending_launch_counts_only_when_every_outcome_fits() -> None:
    promise = supply("promise", "g4", "g5")
    assert balance([need("both", "g4", "g5")], [promise]).missing == ()
    assert balance([need("one", "g4")], [promise]).missing == ("one",)
    assert not fits(need("x", "g4"), replace(supply("s", "g4"), zones=frozenset("ab")))
    spot_only = replace(need("x", "g4"), markets=frozenset({Market.SPOT}))
    assert not fits(spot_only, replace(supply("s", "g4"), markets=BOTH))


def test_a_free_instance_is_used_before_a_pending_launch() -> None:
    stock = [supply("instance", "g4"), supply("promise", "g4")]
    assert balance([need("one", "g4")], stock).surplus == ("promise",)


def test_an_instance_serves_the_most_constrained_first_then_the_longest_waiting() -> None:
    flexible = need("flexible", "g4", "g5", waited=9)
    picky, patient = need("picky", "g4", waited=1), need("patient", "g4", waited=5)
    claimant, other = supply("g4", "g4"), supply("g5", "g5")
    assert lease_for(claimant, [flexible, picky], [other]) == picky
    assert lease_for(claimant, [flexible, picky, patient], [other]) == patient
    assert lease_for(claimant, [flexible, picky]) == flexible
    assert lease_for(claimant, [need("g5 only", "g5")]) is None


@pytest.mark.parametrize("asked", ["all", "one"])
def test_time_grows_at_most_linearly_with_the_number_of_needs(asked: str) -> None:
    """It blocks the hub meanwhile: pair by pair, a thousand would take seconds."""

    def seconds(number: int) -> float:
        kinds = [("g4",), ("g4", "g5"), ("g5",)]
        needs = [need(f"need-{n}", *kinds[n % 3], waited=n) for n in range(number)]
        supplies = [supply(f"supply-{n}", kinds[n % 3][0]) for n in range(number)]
        if asked == "all":
            assert balance(needs, supplies) == Balance((), ())
            return _quickest(lambda: balance(needs, supplies))
        return _quickest(lambda: lease_for(supplies[0], needs, supplies))

    assert seconds(1000) < 3 * 10 * seconds(100)


def _quickest(work: Callable[[], object]) -> float:
    """Seconds of this thread, of the best of a few runs."""
    return min(timeit.repeat(work, timer=time.thread_time, number=1, repeat=5))

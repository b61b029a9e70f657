"""The plan: nothing is forgotten, the cheap comes first, and no bound is passed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.sleep import plan
from ec2spawner.sleep.plan import Group

SIZES = st.integers(0, 10**12)
GROUPS = st.lists(
    st.builds(
        Group,
        names=st.tuples(st.text("abc", min_size=1)),
        size_bytes=SIZES,
        in_child=st.booleans(),
        definition=st.booleans(),
        kept=st.booleans(),
    )
)


@given(GROUPS)
def test_definitions_then_what_is_kept_then_the_cheapest(groups: list[Group]) -> None:
    found = plan.order(groups)
    assert sorted(map(repr, found)) == sorted(map(repr, groups))
    for one, next_one in itertools.pairwise(found):
        assert one.definition >= next_one.definition
        if one.definition == next_one.definition:
            assert one.kept >= next_one.kept
            if one.kept == next_one.kept:
                assert plan.cost_seconds(one) <= plan.cost_seconds(next_one)


@given(SIZES, st.floats(0, 1000), st.integers(0, 1000))
def test_a_child_has_time_within_the_deadline(size: int, remaining: float, waiting: int) -> None:
    limit = plan.limit_seconds(Group(("a",), size, in_child=True), remaining, waiting)
    assert 0 <= limit <= remaining
    assert limit >= min(remaining, plan.SHORTEST_LIMIT)


def test_one_that_hangs_leaves_time_for_the_others() -> None:
    small = Group(("a",), 100, in_child=True)
    assert plan.limit_seconds(small, 60, 0) == plan.USUAL_LIMIT
    assert plan.limit_seconds(small, 60, 59) == 1
    large = Group(("a",), int(3e9), in_child=True)
    assert plan.limit_seconds(large, 600, 59) > 30


@given(SIZES, SIZES, SIZES, SIZES)
def test_the_bound_of_the_disk_and_its_reserve_hold(
    max_bytes: int, used: int, free: int, total: int
) -> None:
    allowed = plan.free_bytes(max_bytes, used, free, total)
    assert allowed >= 0
    if allowed:
        assert used + allowed <= max_bytes
        assert free - allowed >= min(plan.RESERVE_BYTES, int(total * plan.RESERVE_SHARE))


@given(st.dictionaries(st.text("abc"), SIZES), SIZES)
def test_what_is_restored_at_once_fits(sizes: dict[str, int], bound: int) -> None:
    now, later = plan.eager(sizes, bound)
    assert sorted(now + later) == sorted(sizes)
    assert sum(sizes[each] for each in now) <= bound
    assert all(sizes[a] <= sizes[b] for a in now for b in later)


NEEDS = st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 12)))


@given(NEEDS)
def test_what_needs_each_other_is_found_together(needs: dict[int, set[int]]) -> None:
    reached = {each: {each} & needs[each] | (needs[each] & needs.keys()) for each in needs}
    for _ in needs:
        for below in reached.values():
            below.update(*(reached[each] for each in list(below)))
    mutual = {
        frozenset(other for other in below if each in reached[other])
        for each, below in reached.items()
        if each in below
    }
    found = plan.cycles(needs)
    assert set(map(frozenset, found)) == mutual
    assert len(found) == len(mutual)

"""What is saved together, and which variables get copies of what they share."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.sleep.storage.manifest import Entry
from ec2spawner.sleep.survey import memory
from ec2spawner.sleep.survey.found import Found
from ec2spawner.sleep.survey.grouping import Grouping, connected, grouping
from ec2spawner.sleep.survey.memory import Use, Views
from ec2spawner.sleep.survey.walk import survey

NAMES = st.sampled_from("abcdefgh")
USES = st.lists(
    st.builds(
        lambda name, start, size, block: Use(name, start, start + size, block),
        NAMES,
        st.integers(0, 30),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(st.sets(NAMES), st.lists(st.tuples(NAMES, NAMES)))
def test_names_that_share_are_together_and_no_others(
    names: set[str], pairs: list[tuple[str, str]]
) -> None:
    ordered = sorted(names)
    shared = [(a, b) for a, b in pairs if a in names and b in names]
    found = connected(ordered, shared)
    assert sorted(name for group in found for name in group) == ordered
    place = {name: group for group in found for name in group}
    assert all(place[a] == place[b] for a, b in shared)
    # As many groups as there are without the pairs, less one for each pair that connects two.
    reachable = {name: {name} for name in ordered}
    for a, b in shared:
        joined = reachable[a] | reachable[b]
        for name in joined:
            reachable[name] = joined
    assert len(found) == len({id(each) for each in reachable.values()})


def grouped(
    *found: Found, pairs: tuple[tuple[str, str], ...] = (), can_be_limited: bool = True
) -> Grouping:
    entries = {each.name: Entry(each.name) for each in found}
    return grouping(entries, found, pairs, can_be_limited=can_be_limited)


def test_what_one_name_reaches_holds_for_its_group() -> None:
    found = Found("a", 5, runs_code=True, plain=False), Found("b", 7, gpu=True), Found("c", 9)
    groups, entries = grouped(*found, pairs=(("a", "b"),))
    one, other = groups
    assert (one.names, one.size_bytes, other.names) == (("a", "b"), 12, ("c",))
    assert (one.runs_code, one.in_child, one.plain, one.gpu) == (True, True, False, True)
    assert (other.runs_code, other.in_child, other.plain, other.gpu) == (False, False, True, False)
    assert [(e.gpu, e.plain) for e in entries.values()] == [(True, False)] * 2 + [(False, True)]


def test_what_a_child_cannot_use_is_saved_here_though_it_runs_code() -> None:
    groups, _ = grouped(Found("a", runs_code=True, in_process=True))
    assert (groups[0].runs_code, groups[0].in_child) == (True, False)


def test_a_child_saves_all_where_no_time_limit_is_possible() -> None:
    groups, _ = grouped(Found("a"), Found("b", in_process=True), can_be_limited=False)
    assert [each.in_child for each in groups] == [True, False]


def test_what_holds_all_variables_is_reported_and_joins_none() -> None:
    found = Found("a", holds_namespace=True), Found("b"), Found("c")
    groups, entries = grouped(*found, pairs=(("a", "b"), ("a", "c")))
    assert [each.names for each in groups] == [("b",), ("c",)]
    assert entries["a"].code == "not-storable"


def test_a_group_of_definitions_is_one() -> None:
    found = Found("f", is_definition=True), Found("g", is_definition=True), Found("x")
    groups, _ = grouped(*found, pairs=(("f", "g"),))
    assert [each.definition for each in groups] == [True, False]


def test_an_owner_is_saved_for_its_views_if_they_use_half_of_it() -> None:
    views = [Views(1, 100, 0, True), Views(2, 100, 50, False), Views(3, 100, 49, False)]
    assert memory.whole(views) == {1, 2}


def test_overlapping_memory_of_different_blocks_is_copied() -> None:
    uses = [Use("a", 0, 10, 1), Use("b", 9, 12, 2), Use("c", 12, 20, 3), Use("d", 30, 30, 4)]
    assert memory.copies(uses, {1, 2, 3}) == {"a", "b"}
    assert memory.copies([use._replace(block=1) for use in uses], {1}) == set()
    assert memory.copies([use._replace(block=1) for use in uses], set()) == {"a", "b"}


def test_what_nobody_can_write_or_see_is_no_difference() -> None:
    uses = [Use("a", 0, 10, 1), Use("b", 0, 10, 2)]
    assert not memory.copies([use._replace(can_write=False) for use in uses], {1, 2})
    assert not memory.copies([use._replace(is_value=True) for use in uses], {1, 2})
    assert memory.copies([uses[0], uses[1]._replace(is_value=True)], {1, 2}) == {"a", "b"}


@given(USES, st.sets(st.integers(0, 3)))
def test_copies_are_what_overlaps_and_is_not_of_one_block(
    uses: list[Use], restored: set[int]
) -> None:
    found = memory.copies(uses, restored)
    for place, one in enumerate(uses):
        for other in uses[place + 1 :]:
            is_shared = max(one.start, other.start) < min(one.end, other.end)
            if is_shared and not (one.block == other.block and one.block in restored):
                assert {one.name, other.name} <= found
    standalone = [
        use.name
        for use in uses
        if not any(
            each is not use and max(each.start, use.start) < min(each.end, use.end) for each in uses
        )
    ]
    assert not {name for name in standalone if [u.name for u in uses].count(name) == 1} & found


# --- the walk that finds what is shared ---


def test_what_a_name_reaches_twice_is_counted_once_and_not_shared() -> None:
    part = ["text"]
    namespace: dict[str, Any] = {"once": [["text"], None], "twice": [part, part]}
    found = survey(namespace, namespace, 10)
    once, twice = (each.size_bytes for each in found.found)
    assert twice == once
    assert found.shared == []


def test_a_function_without_a_name_is_shared_by_the_names_that_reach_it() -> None:
    namespace: dict[str, Any] = {}
    exec("a = [lambda items=[1]: items]\nb, c = [a[0]], [lambda: 1]", namespace)
    found = survey(namespace, "abc", 10)
    assert found.shared == [("a", "b")], "with all that it holds"
    assert all(each.runs_code for each in found.found)

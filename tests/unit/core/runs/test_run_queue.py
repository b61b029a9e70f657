"""Which queued runs start now."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.runs.queue import QueuePlace, QueueRules, next_runs

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def place(number: int, user: str = "ann", payer: str = "", **fields: object) -> QueuePlace:
    return QueuePlace(number, user, payer or f"user:{user}", **fields)  # type: ignore[arg-type]


def test_a_single_run_does_not_wait_for_a_colleagues_array() -> None:
    queued = [place(n, "ann", array=1) for n in range(1, 101)] + [place(101, "bob")]
    assert next_runs(queued, [], QueueRules(at_once=4), NOW) == [1, 101, 2, 3]


def test_who_has_the_fewest_runs_under_way_comes_first() -> None:
    started = [place(1, "ann"), place(2, "ann"), place(3, "bob")]
    queued = [place(4, "ann"), place(5, "bob"), place(6, "cyd")]
    assert next_runs(queued, started, QueueRules(at_once=5), NOW) == [6, 5]


def test_the_priority_of_the_payer_comes_before_everything_else() -> None:
    rules = QueueRules(at_once=2, priorities={"group:research": 5, "user:bob": -1})
    queued = [place(1, "bob"), place(2, "ann"), place(3, "cyd", "group:research")]
    assert next_runs(queued, [], rules, NOW) == [3, 2]


def test_what_an_array_allows_at_once_holds_up_only_this_array() -> None:
    queued = [place(n, array=1, array_at_once=2) for n in range(1, 6)] + [place(6)]
    started = [place(7, array=1, array_at_once=2)]
    assert next_runs(queued, started, QueueRules(at_once=10), NOW) == [1, 6]


def test_a_run_after_a_failure_waits_for_its_time() -> None:
    later = NOW + timedelta(seconds=1)
    queued = [place(1, not_before=later), place(2, not_before=NOW)]
    assert next_runs(queued, [], QueueRules(at_once=10), NOW) == [2]


def test_a_hub_that_allows_no_runs_starts_none() -> None:
    assert next_runs([place(1)], [], QueueRules(), NOW) == []


PLACES = st.builds(
    QueuePlace,
    number=st.integers(1, 10_000),
    user=st.sampled_from("abc"),
    payer=st.sampled_from(["x", "y"]),
    array=st.sampled_from([0, 0, 1, 2]),
    array_at_once=st.sampled_from([None, 1, 3]),
    not_before=st.sampled_from([None, NOW - timedelta(1), NOW + timedelta(1)]),
)


@given(
    st.lists(PLACES, max_size=60, unique_by=lambda each: each.number),
    st.integers(0, 12),
    st.integers(0, 20),
    st.sampled_from([None, 1, 4]),
)
def test_no_bound_is_ever_passed_and_no_place_is_left_free(
    places: list[QueuePlace], under_way: int, at_once: int, per_user: int | None
) -> None:
    started, queued = places[:under_way], places[under_way:]
    rules = QueueRules(at_once, per_user, {"x": 1})

    chosen = next_runs(queued, started, rules, NOW)

    by_number = {each.number: each for each in queued}
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= by_number.keys()
    assert not chosen or len(started) + len(chosen) <= at_once
    all_started = [*started, *(by_number[number] for number in chosen)]
    users = Counter(each.user for each in all_started)
    arrays = Counter(each.array for each in all_started if each.array)
    for number in chosen:
        run = by_number[number]
        assert run.not_before is None or run.not_before <= NOW
        assert per_user is None or users[run.user] <= per_user
        assert not run.array or run.array_at_once is None or arrays[run.array] >= 1
    left = [
        each
        for each in queued
        if each.number not in chosen
        and (each.not_before is None or each.not_before <= NOW)
        and (per_user is None or users[each.user] < per_user)
        and (not each.array or each.array_at_once is None)
    ]
    assert not left or len(all_started) >= at_once, "somebody could have started"


@given(st.lists(PLACES, max_size=40, unique_by=lambda each: each.number))
def test_the_order_does_not_depend_on_how_the_queue_is_listed(places: list[QueuePlace]) -> None:
    rules = QueueRules(at_once=10)
    assert next_runs(places, [], rules, NOW) == next_runs(places[::-1], [], rules, NOW)

"""How many workers a cluster asks for and gives up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from ec2spawner.core.cluster_size import (
    MIN_USE,
    WorkerNow,
    idle_at,
    missing,
    surplus,
    was_of_use,
)

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


@st.composite
def clusters(draw: st.DrawFn) -> list[WorkerNow]:
    count = draw(st.integers(0, 8))
    workers = []
    for number in range(1, count + 1):
        is_ready = draw(st.booleans())
        minutes = draw(st.none() | st.integers(0, 60)) if is_ready else None
        idle_since = None if minutes is None else NOON - timedelta(minutes=minutes)
        is_leaving = draw(st.booleans())
        workers.append(WorkerNow(f"lease-{number}", number, is_ready, idle_since, is_leaving))
    return workers


@given(clusters(), st.integers(0, 8))
def test_a_cluster_never_asks_for_workers_and_gives_some_up(
    workers: list[WorkerNow], wanted: int
) -> None:
    staying = sum(not each.is_leaving for each in workers)
    asked, given_up = missing(workers, wanted), surplus(workers, wanted)
    assert not (asked and given_up)
    if wanted and len(workers) - staying <= wanted:
        assert staying + asked - len(given_up) == wanted


@given(clusters(), st.integers(0, 8))
def test_workers_that_stay_about_to_be_reclaimed_do_not_grow_a_cluster_without_end(
    workers: list[WorkerNow], wanted: int
) -> None:
    asked = missing(workers, wanted)
    assert not asked or len(workers) + asked <= 2 * wanted


@given(clusters())
def test_a_cluster_that_is_stopped_keeps_no_worker(workers: list[WorkerNow]) -> None:
    assert surplus(workers, 0) == workers
    assert missing(workers, 0) == 0


@given(clusters(), st.integers(0, 8))
def test_no_busy_worker_is_given_up_while_an_idle_one_stays(
    workers: list[WorkerNow], wanted: int
) -> None:
    given_up = surplus(workers, wanted)
    staying = [x for x in workers if x not in given_up and not x.is_leaving]
    if any(x.is_ready and x.idle_since is None for x in given_up):
        assert all(x.is_ready and x.idle_since is None for x in staying)


def test_of_equal_workers_the_last_ones_are_given_up() -> None:
    workers = [WorkerNow(f"lease-{n}", n, True, None) for n in (1, 2, 3)]
    assert [each.number for each in surplus(workers, 1)] == [3, 2]


@given(clusters(), st.integers(1, 8), st.data())
def test_no_worker_is_given_up_before_all_that_have_joined_are_heard(
    workers: list[WorkerNow], wanted: int, data: st.DataObject
) -> None:
    ready = [each for each in workers if each.is_ready]
    assume(ready)
    silent = data.draw(st.sampled_from(ready))
    unheard = [replace(x, is_heard=x is not silent) for x in workers]
    assert surplus(unheard, wanted) == []
    assert surplus(unheard, 0) == unheard


def test_a_cluster_is_idle_since_its_last_worker_is() -> None:
    workers = [
        WorkerNow("one", 1, True, NOON),
        WorkerNow("two", 2, True, NOON + timedelta(minutes=5)),
    ]
    assert idle_at(workers, 600.0) == NOON + timedelta(minutes=15)


def test_a_cluster_is_not_idle_while_a_worker_works_or_is_on_its_way() -> None:
    idle = WorkerNow("one", 1, True, NOON)
    assert idle_at([idle, WorkerNow("two", 2, True, None)], 600.0) is None
    assert idle_at([idle, WorkerNow("two", 2, False, None)], 600.0) is None
    assert idle_at([], 600.0) is None
    assert idle_at([idle], 0.0) is None


def test_a_worker_that_is_about_to_be_reclaimed_is_replaced() -> None:
    workers = [
        WorkerNow("one", 1, True, None),
        WorkerNow("two", 2, True, None, is_leaving=True),
    ]
    assert missing(workers, 2) == 1
    assert surplus(workers, 2) == []


def test_a_worker_that_fails_at_once_was_of_no_use() -> None:
    assert was_of_use(NOON, None)
    assert was_of_use(NOON, NOON + MIN_USE)
    assert not was_of_use(NOON, NOON + MIN_USE / 2)
    assert not was_of_use(None, NOON)

"""The phases of starts from any marks, their outcomes, and many starts in numbers."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from statistics import quantiles
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.starts.outcome import Outcome, outcome_of_failure
from ec2spawner.core.starts.phases import Marks, Phase, start_phases
from ec2spawner.core.starts.summary import MeasuredStart, StartSummary, percentile, summary
from ec2spawner.wire import Stop

COLD = Marks(
    asked=0.1,
    answered=1.6,
    running=9.0,
    agent_started=30.0,
    claimed=31.5,
    granted=31.6,
    mounted=34.0,
    notebook_started=34.2,
    listening=36.2,
    routed=36.5,
)


def seconds(marks: Marks) -> dict[str, float]:
    return {each.phase.value: round(each.seconds, 6) for each in start_phases(marks).phases}


def test_a_start_on_a_new_instance_has_ten_phases() -> None:
    assert seconds(COLD) == {
        "queue": 0.1,
        "buy": 1.5,
        "pending": 7.4,
        "boot": 21.0,
        "agent": 1.5,
        "claim": 0.1,
        "home": 2.4,
        "notebook": 0.2,
        "listen": 2.0,
        "route": 0.3,
    }
    assert start_phases(COLD).total == 36.5


def test_a_start_on_an_instance_that_waited_has_no_boot() -> None:
    warm = Marks(asked=0.1, granted=0.2, mounted=2, notebook_started=2.1, listening=4, routed=4.5)
    found = seconds(warm)
    assert list(found) == ["queue", "claim", "home", "notebook", "listen", "route"]
    assert sum(found.values()) == pytest.approx(4.5)


def test_what_an_instance_did_before_the_request_is_no_part_of_the_start() -> None:
    """It was bought for a start that was cancelled, and still booted."""
    found = seconds(replace(COLD, asked=-20.0, answered=-18.0, running=-5.0))
    assert list(found)[:3] == ["queue", "boot", "agent"]
    assert (found["queue"], found["boot"]) == (0, 30)


def test_an_instant_that_is_not_known_leaves_its_time_to_the_next_phase() -> None:
    found = seconds(replace(COLD, running=None, agent_started=None, notebook_started=None))
    assert found["agent"] == pytest.approx(31.5 - 1.6)
    assert found["listen"] == pytest.approx(36.2 - 34.0)
    assert not {"pending", "boot", "notebook"} & found.keys()


def test_the_time_of_an_instance_that_was_lost_is_part_of_the_queue() -> None:
    again = replace(COLD, asked=50.2, answered=51.0, running=60.0, agent_started=70.0, lost=50.0)
    again = replace(again, claimed=71.0, granted=71.1, mounted=72.0, listening=75.0, routed=75.1)
    found = start_phases(again)
    assert seconds(again)["queue"] == 50.2
    assert (found.lost, found.total) == (50.0, 75.1)


def test_the_phase_in_which_a_start_ended_is_incomplete() -> None:
    found = start_phases(Marks(asked=0.1, answered=1.0, ended=601.0))
    assert [each.phase for each in found.phases] == ["queue", "buy", "pending"]
    last = found.phases[-1]
    assert (last.seconds, last.is_complete, found.current) == (600, False, None)
    assert found.total == 601


def test_a_start_in_progress_says_where_it_is() -> None:
    assert start_phases(Marks()).current == "queue"
    found = start_phases(Marks(asked=0.1, answered=1.0))
    assert (found.current, found.total) == ("pending", 1.0)
    assert start_phases(COLD).current is None


def test_a_server_that_ends_hours_after_its_start_had_a_short_start() -> None:
    """JupyterHub did not reach it, so that no route followed."""
    found = start_phases(replace(COLD, routed=None, ended=7200.0))
    assert found.total == 36.2
    assert all(each.is_complete for each in found.phases)


@pytest.mark.parametrize("wrong", [-1e9, 0.0, 1e9])
def test_an_agent_distorts_only_the_phases_between_instants_of_the_hub(wrong: float) -> None:
    claims = replace(COLD, running=wrong, agent_started=wrong, notebook_started=wrong)
    found, honest = seconds(claims), seconds(COLD)
    for phase in ("queue", "buy", "claim", "home", "route"):
        assert found[phase] == honest[phase]
    assert sum(found.values()) == pytest.approx(36.5)


INSTANTS = st.none() | st.floats(-1e6, 1e6)
MARKS = st.builds(
    Marks,
    **{field.name: INSTANTS for field in fields(Marks) if field.name != "lost"},
    lost=st.floats(0, 1e6),
)


@given(MARKS)
def test_phases_add_up_and_none_is_negative(marks: Marks) -> None:
    found = start_phases(marks)
    order = list(Phase)
    places = [order.index(each.phase) for each in found.phases]
    assert places == sorted(set(places))
    assert all(each.seconds >= 0 for each in found.phases)
    assert all(each.is_complete for each in found.phases[:-1])
    assert sum(each.seconds for each in found.phases) == pytest.approx(found.total, abs=1e-6)
    assert 0 <= found.lost <= found.total
    if found.phases:
        assert found.phases[0].began == 0
        assert all(x.ended == y.began for x, y in pairwise(found.phases))


@given(MARKS, st.floats(0, 1e6))
def test_a_start_that_is_over_takes_as_long_as_the_hub_saw(marks: Marks, routed: float) -> None:
    found = start_phases(replace(marks, routed=routed))
    assert found.total == max(routed, marks.lost)
    assert found.phases[-1].phase is Phase.ROUTE


def start(
    number: int, total: float, profile: str = "t4", outcome: Outcome = Outcome.READY
) -> MeasuredStart:
    """One whose boot takes all of its time but a second in the queue."""
    phases = {Phase.QUEUE: 1.0, Phase.BOOT: total - 1}
    times = tuple(phases.get(phase) for phase in Phase)
    return MeasuredStart(f"lease-{number}", profile, "spot", outcome, total, 0.0, times)


def test_a_summary_has_the_numbers_of_each_profile() -> None:
    starts = [start(n, float(n)) for n in range(1, 102)]
    failed = start(200, 900.0, outcome=Outcome.SOLD_OUT)
    found = summary([*starts, failed, start(201, 3.0, "l4")], slowest=2)
    l4, t4 = found.groups
    assert (l4.profile, l4.count) == ("l4", 1)
    assert t4.outcomes == {Outcome.READY: 101, Outcome.SOLD_OUT: 1}
    assert t4.total is not None
    assert (t4.total.count, t4.total.median, t4.total.p95) == (101, 51.0, 96.0)
    assert t4.phases[Phase.BOOT].p95 == 95.0
    assert t4.dominant is Phase.BOOT
    assert t4.share(Phase.QUEUE) == pytest.approx(101 / sum(range(1, 102)))
    assert [each.total for each in found.slowest] == [101, 100]


def test_a_group_without_a_ready_start_has_no_durations() -> None:
    [group] = summary([start(1, 5.0, outcome=Outcome.CANCELLED)], slowest=3).groups
    assert (group.total, group.dominant, group.phases) == (None, None, {})
    assert summary([], slowest=3) == StartSummary([], [])


@given(st.lists(st.floats(0, 1e4), min_size=2), st.integers(1, 99))
def test_percentiles_are_those_of_the_standard_library(values: list[float], percent: int) -> None:
    expected = quantiles(values, n=100, method="inclusive")[percent - 1]
    assert percentile(sorted(values), percent / 100) == pytest.approx(expected)


@pytest.mark.parametrize("reason", get_args(Stop.model_fields["reason"].annotation))
def test_every_reason_of_a_stop_is_an_outcome_other_than_ready(reason: str) -> None:
    assert outcome_of_failure(reason, is_refused=False) is not Outcome.READY


@pytest.mark.parametrize(
    ("reason", "is_refused", "outcome"),
    [
        ("user", False, "cancelled"),
        ("user", True, "cancelled"),
        ("capacity", False, "sold-out"),
        ("quota", False, "quota"),
        ("budget", False, "limit"),
        ("failed", False, "failed"),
        ("failed", True, "refused"),
        ("interruption", False, "failed"),
    ],
)
def test_outcomes_of_starts_that_failed(reason: str, is_refused: bool, outcome: str) -> None:
    assert outcome_of_failure(reason, is_refused=is_refused) == outcome

"""The progress page tells a story that goes forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.hub.progress import progress_event
from ec2spawner.provisioner.cloud import LaunchSpec
from ec2spawner.provisioner.lease import Lease, LeaseState, StepEvent
from ec2spawner.wire import IdlePolicy, Market, Step

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
STEPS = [Step.REQUEST, Step.BOOT, Step.HOME, Step.NOTEBOOK]
ORDER = {"done": 0, "now": 1, "todo": 2}
USUAL = {Step.REQUEST: 2.0, Step.BOOT: 40.0, Step.HOME: 4.0, Step.NOTEBOOK: 4.0}

usual_times = st.dictionaries(st.sampled_from(STEPS), st.floats(0, 1e4), max_size=4)
gaps = st.lists(st.floats(0, 1e4), min_size=5, max_size=5)


def lease(*events: StepEvent, state: LeaseState = LeaseState.STARTING) -> Lease:
    spec = LaunchSpec(("g4dn.xlarge",), ("subnet-a",), "ami-1", (Market.SPOT,), 100)
    return Lease(
        lease_id="lease-1",
        user="ada",
        server="",
        profile="t4",
        profile_name="T4, 16 GB",
        spec=spec,
        launch_key="key",
        home_kind="none",
        home_gib=0,
        idle=IdlePolicy(),
        state=state,
        requested_at=NOW,
        events=events,
    )


def event(step: Step, seconds: float, message: str = "") -> StepEvent:
    return StepEvent(step, NOW + timedelta(seconds=seconds), message or step.value)


def told(lease: Lease, usual: Mapping[Step, float], seconds: float) -> dict[str, Any]:
    return progress_event(lease, usual, NOW + timedelta(seconds=seconds))


@given(usual_times, gaps, st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_neither_bar_nor_steps_go_back_while_the_start_advances(
    usual: dict[Step, float], gaps: list[float], looks: list[float]
) -> None:
    story: list[StepEvent] = []
    at, last_percent, last_states = 0.0, 0, ["todo"] * 4
    for step, gap, look in zip(STEPS, gaps, looks, strict=False):
        story.append(event(step, at))
        for seconds in (at, at + look * gap, at + gap):
            shown = told(lease(*story), usual, seconds)
            states = [each["state"] for each in shown["steps"]]
            assert 1 <= shown["progress"] <= 99
            assert shown["progress"] >= last_percent
            assert states.count("now") == 1
            assert sorted(states, key=ORDER.__getitem__) == states
            assert all(
                ORDER[new] <= ORDER[old] for new, old in zip(states, last_states, strict=True)
            )
            last_percent, last_states = shown["progress"], states
        at += gap
    ready = told(lease(*story, event(Step.READY, at), state=LeaseState.READY), usual, at)
    assert ready["progress"] == 100
    assert {each["state"] for each in ready["steps"]} == {"done"}


def test_a_step_shows_how_long_it_took_and_usually_takes() -> None:
    story = [event(Step.REQUEST, 0), event(Step.BOOT, 3), event(Step.HOME, 48)]
    shown = told(lease(*story), USUAL, 50)
    assert [each["seconds"] for each in shown["steps"]] == [3.0, 45.0, 2.0, None]
    assert [each["usual_seconds"] for each in shown["steps"]] == [2.0, 40.0, 4.0, 4.0]
    assert shown["usual_seconds"] == 50.0
    assert shown["elapsed_seconds"] == 50.0
    assert shown["profile"] == "T4, 16 GB"


def test_what_is_not_known_is_not_claimed() -> None:
    shown = told(lease(event(Step.REQUEST, 0)), {Step.BOOT: 40.0}, 1)
    assert shown["usual_seconds"] is None
    assert [each["usual_seconds"] for each in shown["steps"]] == [None, 40.0, None, None]


def test_a_slow_step_waits_short_of_the_next_one() -> None:
    story = [event(Step.REQUEST, 0), event(Step.BOOT, 2)]
    stuck = told(lease(*story), USUAL, 10_000)["progress"]
    after = told(lease(*story, event(Step.HOME, 10_000)), USUAL, 10_000)["progress"]
    assert stuck < after < 99


def test_the_message_is_the_latest_line_and_what_was_found_stays_in_sight() -> None:
    found = replace(event(Step.BOOT, 2, "Found one: g4dn.xlarge"), detail="i-1")
    shown = told(lease(event(Step.REQUEST, 0), found), USUAL, 3)
    assert shown["message"] == "Found one: g4dn.xlarge"
    assert shown["steps"][0]["title"] == "Found one: g4dn.xlarge"
    assert shown["steps"][1]["detail"] == "i-1"


def test_a_start_without_a_line_yet_says_what_happens() -> None:
    shown = told(lease(state=LeaseState.WAITING), {}, 0)
    assert shown["message"]
    assert shown["progress"] == 1
    assert shown["steps"][0]["state"] == "now"


def test_a_replaced_instance_starts_the_story_over() -> None:
    for reached in ([Step.BOOT], [Step.BOOT, Step.HOME, Step.NOTEBOOK], [Step.HOME]):
        story = [event(Step.REQUEST, 0)]
        story += [event(step, 10 * n + 10) for n, step in enumerate(reached)]
        story.append(event(Step.REQUEST, 100, "The instance ended; getting another one"))
        shown = told(lease(*story, state=LeaseState.WAITING), USUAL, 101)
        assert [each["state"] for each in shown["steps"]] == ["now", "todo", "todo", "todo"]
        assert shown["steps"][0]["seconds"] == 1.0
        assert shown["elapsed_seconds"] == 101.0, "but the waiting has been this long"


def test_a_clock_that_jumps_back_shows_no_negative_time() -> None:
    shown = told(lease(event(Step.REQUEST, 10), event(Step.BOOT, 5)), USUAL, -60)
    assert shown["elapsed_seconds"] == 0
    assert all((each["seconds"] or 0) >= 0 for each in shown["steps"])
    assert shown["progress"] >= 1

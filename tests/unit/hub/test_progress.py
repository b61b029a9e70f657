"""The progress page only goes forward."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.pricing.beside import Beside
from ec2spawner.core.starts.phases import Marks, Phase
from ec2spawner.hub.pages.progress.attempt_text import request_text
from ec2spawner.hub.pages.progress.migration_progress import Moving
from ec2spawner.hub.pages.progress.progress import PHASE_TITLES, progress_event
from ec2spawner.provisioner.model.cloud.launch import LaunchSpec
from ec2spawner.provisioner.model.leases.lease import (
    Attempt,
    AttemptOutcome,
    Lease,
    LeaseState,
    StepEvent,
)
from ec2spawner.wire import IdlePolicy, Market, Step

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
STEPS = [Step.REQUEST, Step.BOOT, Step.HOME, Step.NOTEBOOK]
ORDER = {"done": 0, "now": 1, "todo": 2}
USUAL = {Step.REQUEST: 2.0, Step.BOOT: 40.0, Step.HOME: 4.0, Step.NOTEBOOK: 4.0}

usual_times = st.dictionaries(st.sampled_from(STEPS), st.floats(0, 1e4), max_size=4)
gaps = st.lists(st.floats(0, 1e4), min_size=5, max_size=5)


def lease(
    *events: StepEvent,
    state: LeaseState = LeaseState.STARTING,
    attempts: tuple[Attempt, ...] = (),
    markets: tuple[Market, ...] = (Market.SPOT, Market.ON_DEMAND),
) -> Lease:
    spec = LaunchSpec(("g4dn.xlarge",), ("subnet-a",), "ami-1", markets, 100)
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
        attempts=attempts,
    )


def event(step: Step, seconds: float, message: str = "") -> StepEvent:
    return StepEvent(step, NOW + timedelta(seconds=seconds), message or step.value)


SPOT = Attempt(Market.SPOT, ("g4dn.xlarge",), ZONES, NOW, 0.19)
SPOT_SOLD_OUT = replace(SPOT, outcome=AttemptOutcome.SOLD_OUT, answer="in us-east-1a, b and c")
ON_DEMAND = Attempt(
    Market.ON_DEMAND,
    ("g4dn.xlarge",),
    ZONES,
    NOW + timedelta(seconds=1),
    0.53,
    AttemptOutcome.FOUND,
    "g4dn.xlarge in us-east-1b",
)


def shown_at(lease: Lease, usual: Mapping[Step, float], seconds: float) -> dict[str, Any]:
    return progress_event(lease, usual, NOW + timedelta(seconds=seconds))


@given(usual_times, gaps, st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_progress_never_goes_back_while_the_start_advances(
    usual: dict[Step, float], gaps: list[float], fractions: list[float]
) -> None:
    story: list[StepEvent] = []
    at, last_percent, last_states = 0.0, 0, ["todo"] * 4
    for step, gap, fraction in zip(STEPS, gaps, fractions, strict=False):
        story.append(event(step, at))
        for seconds in (at, at + fraction * gap, at + gap):
            shown = shown_at(lease(*story), usual, seconds)
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
    ready = shown_at(lease(*story, event(Step.READY, at), state=LeaseState.READY), usual, at)
    assert ready["progress"] == 100
    assert {each["state"] for each in ready["steps"]} == {"done"}


def test_a_step_shows_how_long_it_took_and_usually_takes() -> None:
    story = [event(Step.REQUEST, 0), event(Step.BOOT, 3), event(Step.HOME, 48)]
    shown = shown_at(lease(*story), USUAL, 50)
    assert [each["seconds"] for each in shown["steps"]] == [3.0, 45.0, 2.0, None]
    assert [each["usual_seconds"] for each in shown["steps"]] == [2.0, 40.0, 4.0, 4.0]
    assert shown["usual_seconds"] == 50.0
    assert shown["elapsed_seconds"] == 50.0
    assert shown["profile"] == "T4, 16 GB"


def test_unknown_durations_are_not_shown() -> None:
    shown = shown_at(lease(event(Step.REQUEST, 0)), {Step.BOOT: 40.0}, 1)
    assert shown["usual_seconds"] is None
    assert [each["usual_seconds"] for each in shown["steps"]] == [None, 40.0, None, None]


def test_a_slow_step_stays_below_the_next_one() -> None:
    story = [event(Step.REQUEST, 0), event(Step.BOOT, 2)]
    stuck = shown_at(lease(*story), USUAL, 10_000)["progress"]
    after = shown_at(lease(*story, event(Step.HOME, 10_000)), USUAL, 10_000)["progress"]
    assert stuck < after < 99


def test_the_message_is_the_latest_event_and_the_found_instance_stays_visible() -> None:
    found = replace(event(Step.BOOT, 2, "Found one: g4dn.xlarge"), detail="i-1")
    shown = shown_at(lease(event(Step.REQUEST, 0), found), USUAL, 3)
    assert shown["message"] == "Found one: g4dn.xlarge"
    assert shown["steps"][0]["title"] == "Found one: g4dn.xlarge"
    assert shown["steps"][1]["detail"] == "i-1"


def test_the_found_instance_is_named_once() -> None:
    searching = lease(event(Step.REQUEST, 0), attempts=(ON_DEMAND,))
    [asked] = shown_at(searching, USUAL, 1)["attempts"]
    assert asked["answer"] == "found g4dn.xlarge in us-east-1b, $0.53/h"
    assert not asked["is_in_title"], "nothing else says it yet"
    story = event(Step.REQUEST, 0), event(Step.BOOT, 2, "Found one: g4dn.xlarge")
    found = shown_at(lease(*story, attempts=(ON_DEMAND,)), USUAL, 3)
    assert found["steps"][0]["title"] == "Found one: g4dn.xlarge"
    assert found["attempts"][0]["is_in_title"], "so the page does not say it again"


def test_a_start_without_events_says_what_happens() -> None:
    shown = shown_at(lease(state=LeaseState.WAITING), {}, 0)
    assert shown["message"]
    assert shown["progress"] == 1
    assert shown["steps"][0]["state"] == "now"


def test_a_replaced_instance_restarts_the_progress() -> None:
    for reached in ([Step.BOOT], [Step.BOOT, Step.HOME, Step.NOTEBOOK], [Step.HOME]):
        story = [event(Step.REQUEST, 0)]
        story += [event(step, 10 * n + 10) for n, step in enumerate(reached)]
        story.append(event(Step.REQUEST, 100, "The instance ended; getting another one"))
        shown = shown_at(lease(*story, state=LeaseState.WAITING), USUAL, 101)
        assert [each["state"] for each in shown["steps"]] == ["now", "todo", "todo", "todo"]
        assert shown["steps"][0]["seconds"] == 1.0
        assert shown["elapsed_seconds"] == 101.0, "but the waiting has been this long"


def test_a_clock_that_jumps_back_shows_no_negative_time() -> None:
    shown = shown_at(lease(event(Step.REQUEST, 10), event(Step.BOOT, 5)), USUAL, -60)
    assert shown["elapsed_seconds"] == 0
    assert all((each["seconds"] or 0) >= 0 for each in shown["steps"])
    assert shown["progress"] >= 1


# --- the launch calls ------------------------------------------------------------------------


def lines(shown: Mapping[str, Any]) -> list[str]:
    return [f"{each['asked']}: {each['answer']}" for each in shown["attempts"]]


def test_each_launch_call_is_shown_as_it_happens() -> None:
    looking = event(Step.REQUEST, 0)
    asking = shown_at(lease(looking, attempts=(SPOT,)), {}, 1)
    assert lines(asking) == ["Spot, g4dn.xlarge in 3 zones, from $0.19/h: waiting for EC2…"]
    assert asking["notes"] == []
    found = shown_at(lease(looking, attempts=(SPOT_SOLD_OUT, ON_DEMAND)), {}, 2)
    assert lines(found) == [
        "Spot, g4dn.xlarge in 3 zones, from $0.19/h: sold out in us-east-1a, b and c",
        "On-demand, g4dn.xlarge in 3 zones: found g4dn.xlarge in us-east-1b, $0.53/h",
    ]
    assert [each["outcome"] for each in found["attempts"]] == ["sold-out", "found"]
    json.dumps(found)


def test_on_demand_instead_of_spot_has_reason_and_cost() -> None:
    looking = event(Step.REQUEST, 0)
    (note,) = shown_at(lease(looking, attempts=(SPOT_SOLD_OUT, ON_DEMAND)), {}, 2)["notes"]
    assert note == (
        "Spot is sold out, so this is an on-demand machine at $0.53/h instead of $0.19/h or more. "
        "AWS does not interrupt it."
    )
    quota = replace(SPOT_SOLD_OUT, outcome=AttemptOutcome.QUOTA, answer="")
    (note,) = shown_at(lease(looking, attempts=(quota, ON_DEMAND)), {}, 2)["notes"]
    assert note.startswith("The AWS account's spot quota is used up, so")
    known = replace(
        ON_DEMAND,
        skipped_markets=(Market.SPOT,),
        skipped="spot g4dn.xlarge in us-east-1a (sold out, seen at 11:58 UTC)",
        usd_per_hour=None,
    )
    (note,) = shown_at(lease(looking, attempts=(known,)), {}, 2)["notes"]
    assert note.startswith("Spot is sold out, so this is an on-demand machine. ")


def test_spot_is_mentioned_only_to_users_who_requested_and_lack_it() -> None:
    looking = event(Step.REQUEST, 0)
    found_spot = replace(SPOT, outcome=AttemptOutcome.FOUND)
    assert not shown_at(lease(looking, attempts=(SPOT_SOLD_OUT, found_spot)), {}, 2)["notes"]
    only = lease(looking, attempts=(ON_DEMAND,), markets=(Market.ON_DEMAND,))
    assert not shown_at(only, {}, 2)["notes"]
    elsewhere = replace(ON_DEMAND, skipped="on-demand g4dn.xlarge in us-east-1a (sold out)")
    assert not shown_at(lease(looking, attempts=(elsewhere,)), {}, 2)["notes"]
    dearer_spot = shown_at(lease(looking, attempts=(ON_DEMAND,)), {}, 2)
    assert not dearer_spot["notes"], "spot that costs more than on-demand is not sold out"


def test_a_home_that_leaves_one_zone_is_named_as_the_reason() -> None:
    at_home = replace(SPOT_SOLD_OUT, zones=("us-east-1b",), answer="in us-east-1b")
    story = lease(event(Step.REQUEST, 0), attempts=(at_home,))
    (note,) = progress_event(story, {}, NOW, "us-east-1b")["notes"]
    assert (
        note == "Only us-east-1b was tried: your files are there, and no other zone can open them."
    )
    anywhere = lease(event(Step.REQUEST, 0), attempts=(SPOT_SOLD_OUT,))
    assert not progress_event(anywhere, {}, NOW, "us-east-1b")["notes"], "all zones were asked"
    found = replace(at_home, outcome=AttemptOutcome.FOUND)
    went_well = lease(event(Step.REQUEST, 0), attempts=(found,))
    assert not progress_event(went_well, {}, NOW, "us-east-1b")["notes"]


def test_launch_calls_of_a_replaced_instance_belong_to_another_search() -> None:
    again = StepEvent(Step.REQUEST, NOW + timedelta(seconds=30), "The instance ended; again")
    second = replace(ON_DEMAND, at=NOW + timedelta(seconds=31))
    story = lease(event(Step.REQUEST, 0), again, attempts=(SPOT_SOLD_OUT, second))
    assert lines(shown_at(story, {}, 32)) == [lines(shown_at(lease(attempts=(second,)), {}, 2))[0]]


def test_a_quota_has_the_name_that_aws_uses() -> None:
    quota = replace(ON_DEMAND, outcome=AttemptOutcome.QUOTA, answer="in us-east-1a, b and c")
    (line,) = lines(shown_at(lease(attempts=(quota,)), {}, 2))
    assert line.endswith(
        "$0.53/h: no room in the AWS account's quota “Running On-Demand G and VT instances”"
    )


def test_many_types_and_few_zones_stay_readable() -> None:
    many = replace(SPOT, instance_types=("g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge"))
    assert request_text(many) == "Spot, g4dn.xlarge or 2 more types in 3 zones, from $0.19/h"
    two = replace(SPOT, instance_types=("g4dn.xlarge", "g5.xlarge"), zones=("us-east-1b",))
    assert request_text(two) == "Spot, g4dn.xlarge or g5.xlarge in us-east-1b, from $0.19/h"
    one = replace(SPOT, zones=("us-east-1b",), usd_per_hour=None)
    assert request_text(one) == "Spot, g4dn.xlarge in us-east-1b"
    everywhere = replace(ON_DEMAND, outcome=AttemptOutcome.ASKING)
    assert request_text(everywhere) == "On-demand, g4dn.xlarge in 3 zones, $0.53/h"


COPYING = "Moving your files to us-east-1b"


def copied(seconds: float, percent: int) -> StepEvent:
    return replace(event(Step.MOVE, seconds, COPYING), detail=f"{percent} % copied")


def test_a_move_of_the_files_is_a_step_before_the_search() -> None:
    story = [event(Step.REQUEST, 0), copied(1, 0), copied(61, 40)]
    moving = Moving("us-east-1b", 42, "estimated at 1 minute to 5 minutes")
    now = NOW + timedelta(seconds=121)
    shown = progress_event(lease(*story), USUAL, now, moving=moving)
    assert [(each["name"], each["state"]) for each in shown["steps"]] == [
        ("move", "now"),
        ("request", "todo"),
        ("boot", "todo"),
        ("home", "todo"),
        ("notebook", "todo"),
    ]
    step = shown["steps"][0]
    assert (step["title"], step["seconds"]) == (COPYING, 120)
    assert step["detail"] == "42 % copied · estimated at 1 minute to 5 minutes"
    assert shown["message"] == f"{COPYING}: 40 % copied"
    assert "us-east-1b" in shown["advice"]
    assert shown["usual_seconds"] is None, "how long usual starts take says nothing of this one"


def test_the_bar_follows_the_copied_share() -> None:
    story = lease(event(Step.REQUEST, 0), copied(1, 0))
    bars = [
        progress_event(story, USUAL, NOW, moving=Moving("us-east-1b", percent))["progress"]
        for percent in (0, 30, 60, 99)
    ]
    assert bars == sorted(set(bars))


def test_after_a_move_the_search_begins_and_the_move_stays_done() -> None:
    found = event(Step.REQUEST, 300, "Your files are in us-east-1b now")
    story = [event(Step.REQUEST, 0), copied(1, 0), copied(200, 90), found]
    shown = shown_at(lease(*story), USUAL, 302)
    move, search = shown["steps"][:2]
    assert (move["state"], move["seconds"], move["detail"]) == ("done", 299, "")
    assert (search["state"], search["seconds"]) == ("now", 2)
    assert shown["advice"] == ""
    again = event(Step.REQUEST, 400, "The instance ended; getting another one")
    shown = shown_at(lease(*story, event(Step.BOOT, 303), again), USUAL, 401)
    assert [each["state"] for each in shown["steps"]] == ["done", "now", "todo", "todo", "todo"]
    assert shown["steps"][1]["seconds"] == 1


def test_only_phases_that_are_over_are_listed_with_their_time() -> None:
    waiting = replace(lease(event(Step.REQUEST, 0)), marks=Marks())
    assert progress_event(waiting, {}, NOW)["phases"] == []
    found = replace(waiting, marks=Marks(asked=0.25, answered=1.754, lost=0.1))
    assert progress_event(found, {}, NOW)["phases"] == [
        {"name": "queue", "title": "Waiting for the purchase", "seconds": 0.25},
        {"name": "buy", "title": "Buying the machine", "seconds": 1.5},
    ]
    assert PHASE_TITLES.keys() == set(Phase)


def test_what_costs_more_than_the_prices_of_launch_calls_is_said() -> None:
    bought = replace(lease(), attempts=(SPOT,))
    notes = progress_event(bought, {}, NOW, beside=Beside(0.02))["notes"]
    assert any("without its disk: $0.020/h." in note for note in notes)
    assert progress_event(bought, {}, NOW)["notes"] == []
    asked_nothing = replace(bought, attempts=())
    assert progress_event(asked_nothing, {}, NOW, beside=Beside(0.02))["notes"] == []

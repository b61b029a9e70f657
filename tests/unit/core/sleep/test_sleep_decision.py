"""Which stops save the session first, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.sleep.decision import by_hub_clock, with_sleep
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.wire import SavedSession, Stop, Trigger

RULES = SleepRules(save_seconds=300)
REASONS = get_args(Stop.model_fields["reason"].annotation)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("reason", REASONS)
def test_only_stops_of_the_hub_itself_put_a_session_to_sleep(reason: Any) -> None:
    trigger = {"idle": "idle", "max-age": "limit", "budget": "limit"}.get(reason)
    expected = (trigger, 300.0 if trigger else 0.0)
    stop = with_sleep(Stop(reason=reason), "sleep", RULES, is_ready=True)
    assert (stop.sleep, stop.save_seconds) == expected
    assert with_sleep(Stop(reason=reason), "stop", RULES, is_ready=True).sleep is None


def test_who_asks_for_it_gets_it_whatever_the_idle_policy() -> None:
    asked = Stop(reason="user", sleep="user")
    assert with_sleep(asked, "stop", RULES, is_ready=True).save_seconds == 300
    hurried = asked.model_copy(update={"save_seconds": 90.0})
    assert with_sleep(hurried, "stop", RULES, is_ready=True).save_seconds == 90


triggers = st.none() | st.sampled_from(get_args(Trigger))
seconds = st.floats(0, 1e6)
stops = st.builds(
    Stop, reason=st.sampled_from(REASONS), message=st.text(), sleep=triggers, save_seconds=seconds
)


@given(stops, st.sampled_from(["sleep", "stop"]), seconds, st.booleans())
def test_no_stop_waits_for_longer_than_its_server_may_save(
    stop: Stop, then: Any, save: float, is_ready: bool
) -> None:
    found = with_sleep(stop, then, SleepRules(save_seconds=save), is_ready=is_ready)
    assert found.save_seconds <= save
    if found.sleep != "hardware":  # which also means that the server continues
        assert (found.sleep is None) == (found.save_seconds == 0)
    if not is_ready:
        assert found.sleep is None
    if stop.sleep and found.sleep:
        assert found.sleep == stop.sleep
    unchanged = {"sleep": stop.sleep, "save_seconds": stop.save_seconds}
    assert found.model_copy(update=unchanged) == stop


@given(st.timedeltas(timedelta(days=-1000), timedelta(days=1000)))
def test_a_session_was_saved_while_its_server_ran_whatever_its_agent_says(
    off: timedelta,
) -> None:
    session = SavedSession(id="s", slept_at=NOW + off, trigger="idle", seconds=1, size_bytes=1)
    ready_at = NOW - timedelta(hours=1)
    slept_at = by_hub_clock(session, ready_at, NOW).slept_at
    assert ready_at <= slept_at <= NOW
    if timedelta(hours=-1) <= off <= timedelta():
        assert slept_at == session.slept_at

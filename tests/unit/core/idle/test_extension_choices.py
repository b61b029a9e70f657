"""Until when a user may ask to keep a server: what is offered moves the stop, or is off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.idle.extension import keep_choices
from ec2spawner.core.idle.stop_decision import stop_at
from ec2spawner.wire import IdlePolicy, WorkingHours

NOW = datetime(2026, 11, 20, 14, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
START = NOW - 5 * HOUR


def offered(
    policy: IdlePolicy, idle_for: timedelta | None = None, kept_for: timedelta | None = None
) -> list[tuple[str, bool]]:
    since = None if idle_for is None else NOW - idle_for
    until = None if kept_for is None else NOW + kept_for
    choices = keep_choices(policy, START, since, until, NOW)
    return [(f"{choice.until:%H:%M}", choice.changes) for choice in choices]


def test_an_extension_without_effect_is_not_offered() -> None:
    default = [("15:00", False), ("16:00", True), ("18:00", True)]
    assert offered(IdlePolicy()) == default
    assert offered(IdlePolicy(), idle_for=MINUTE) == default
    assert offered(IdlePolicy(), idle_for=50 * MINUTE)[0] == ("15:00", True)


def test_a_granted_extension_is_not_offered_again() -> None:
    kept = offered(IdlePolicy(), idle_for=MINUTE, kept_for=2 * HOUR)
    assert kept == [("15:00", False), ("16:00", False), ("18:00", True)]
    assert not any(changes for _, changes in offered(IdlePolicy(), kept_for=4 * HOUR))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (IdlePolicy(user_may_extend_seconds=0), []),
        (IdlePolicy(server_seconds=0), []),
        (IdlePolicy(user_may_extend_seconds=3 * 3600), [("15:00", False), ("16:00", True)]),
        (IdlePolicy(user_may_extend_seconds=1500, server_seconds=600), [("14:28", True)]),
        (IdlePolicy(max_age_seconds=5.5 * 3600), [(f"{h}:00", False) for h in (15, 16, 18)]),
    ],
    ids=["not allowed", "never stopped", "3 hours", "25 minutes", "too old for all of them"],
)
def test_choices_are_within_the_policy(
    policy: IdlePolicy, expected: list[tuple[str, bool]]
) -> None:
    assert offered(policy) == expected


def test_no_extension_moves_a_stop_by_a_limit() -> None:
    def offered_before(stop_at: datetime, idle_for: timedelta = 50 * MINUTE) -> list[bool]:
        choices = keep_choices(IdlePolicy(), START, NOW - idle_for, None, NOW, stop_at)
        return [each.changes for each in choices]

    assert offered_before(NOW + 5 * MINUTE) == [False, False, False]
    assert offered_before(NOW + 90 * MINUTE) == [True, True, True], "the idle stop comes first"
    assert offered_before(NOW + 12 * MINUTE) == [False, False, False], "two minutes are no gain"


def test_working_hours_count() -> None:
    hours = WorkingHours(
        days=list(range(7)), from_minute=0, to_minute=1440, timezone="UTC", server_seconds=3 * 3600
    )
    policy = IdlePolicy(working_hours=hours)
    assert [changes for _, changes in offered(policy)] == [False, False, True]


@given(
    limit=st.integers(60, 10_000),
    allowed=st.integers(30, 30_000),
    idle_for=st.none() | st.integers(0, 10_000),
    kept_for=st.none() | st.integers(-5000, 20_000),
    max_age=st.sampled_from([0, 20_000, 40_000]),
)
def test_offered_extensions_are_granted_in_full(
    limit: int, allowed: int, idle_for: int | None, kept_for: int | None, max_age: int
) -> None:
    policy = IdlePolicy(
        server_seconds=limit, user_may_extend_seconds=allowed, max_age_seconds=max_age
    )
    since = NOW if idle_for is None else NOW - timedelta(seconds=idle_for)
    kept = None if kept_for is None else NOW + timedelta(seconds=kept_for)
    before = stop_at(policy, START, since, kept)
    for choice in keep_choices(policy, START, None if idle_for is None else since, kept, NOW):
        assert NOW < choice.until <= NOW + timedelta(seconds=allowed)
        after = stop_at(policy, START, since, choice.until)
        assert before is not None
        assert after is not None
        if choice.changes:
            assert after > before
            assert after == choice.until or max_age

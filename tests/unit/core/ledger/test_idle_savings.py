"""What idle rules saved: an hour at a price is that price, and stricter never saves less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.idle_savings import FORGOTTEN, Savings, Session, savings, total

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def session(*idle: timedelta, **changes: Any) -> Session:
    known: dict[str, Any] = {
        "ended_at": NOW - 16 * HOUR,
        "is_idle_stop": False,
        "idle_microseconds": [each // timedelta(microseconds=1) for each in idle],
        "idle_usd_per_hour": 2.0,
        "next_start": None,
    }
    return Session(**known | changes)


def test_a_stricter_limit_saves_the_rest_of_each_longer_period() -> None:
    found = savings([session(HOUR, 10 * MINUTE, 40 * MINUTE)], [HOUR, 30 * MINUTE], NOW)
    assert found.idle_usd == pytest.approx(2.0 * 110 / 60)
    hour, half = found.replays
    assert (hour.saved_usd, hour.stops) == (0, 0)
    assert half.saved_usd == pytest.approx(2.0 * (30 + 10) / 60)
    assert half.idle_usd == pytest.approx(2.0 * (30 + 10 + 30) / 60)
    assert half.stops == 2


def test_an_idle_stop_saves_until_the_next_start_and_no_longer_than_a_night() -> None:
    stopped = session(HOUR, is_idle_stop=True, next_start=NOW - 13 * HOUR)
    assert savings([stopped], [], NOW).stops_saved_usd == pytest.approx(3 * 2.0)
    for_good = session(HOUR, is_idle_stop=True)
    assert savings([for_good], [], NOW).stops_saved_usd == pytest.approx(FORGOTTEN / HOUR * 2.0)
    just_now = session(HOUR, is_idle_stop=True, ended_at=NOW - MINUTE)
    assert savings([just_now], [], NOW).stops_saved_usd == pytest.approx(2.0 / 60)
    at_once = session(HOUR, is_idle_stop=True, next_start=NOW - 17 * HOUR)
    assert savings([at_once, session(HOUR)], [], NOW).stops_saved_usd == 0


def test_an_unknown_price_is_counted_and_in_no_sum() -> None:
    unknown = session(HOUR, idle_usd_per_hour=None, is_idle_stop=True)
    never_idle = session(idle_usd_per_hour=None)
    found = savings([unknown, never_idle, session(HOUR)], [MINUTE], NOW, never_idle=5)
    assert (found.sessions, found.unknown, found.idle_usd) == (7, 1, 2.0)
    assert found.stops_saved_usd == 0


def test_an_idle_stop_without_recorded_idle_time_is_not_said_to_save_nothing() -> None:
    at_once = session(idle_usd_per_hour=None, is_idle_stop=True)
    found = savings([at_once, session(HOUR)], [MINUTE], NOW)
    assert (found.sessions, found.unknown, found.idle_stops) == (1, 1, 0)


SESSIONS = st.lists(
    st.builds(
        lambda idle, price, is_stop: session(*idle, idle_usd_per_hour=price, is_idle_stop=is_stop),
        st.lists(
            st.integers(60, 86400).map(lambda seconds: timedelta(seconds=seconds)), max_size=6
        ),
        st.none() | st.floats(0, 100),
        st.booleans(),
    ),
    max_size=8,
)


@given(sessions=SESSIONS, limits=st.lists(st.integers(1, 2000), min_size=1, max_size=4))
def test_what_is_saved_and_what_is_left_add_up(sessions: list[Session], limits: list[int]) -> None:
    ordered = [timedelta(minutes=minutes) for minutes in sorted(limits)]
    found: Savings = savings(sessions, ordered, NOW)
    for replay in found.replays:
        assert replay.saved_usd + replay.idle_usd == pytest.approx(found.idle_usd)
        assert replay.saved_usd >= 0
    saved = [replay.saved_usd for replay in found.replays]
    assert all(strict >= lax - 1e-9 for strict, lax in pairwise(saved))
    stops = [replay.stops for replay in found.replays]
    assert stops == sorted(stops, reverse=True)


@given(sessions=SESSIONS, cut=st.integers(0, 8))
def test_parts_add_up_to_the_whole(sessions: list[Session], cut: int) -> None:
    limits = (HOUR, MINUTE)
    whole = savings(sessions, limits, NOW, 3)
    added = total(
        [savings(sessions[:cut], limits, NOW, 1), savings(sessions[cut:], limits, NOW, 2)]
    )
    assert (added.sessions, added.unknown) == (whole.sessions, whole.unknown)
    assert added.idle_stops == whole.idle_stops
    assert added.idle_usd == pytest.approx(whole.idle_usd)
    assert added.stops_saved_usd == pytest.approx(whole.stops_saved_usd)
    for one, other in zip(added.replays, whole.replays, strict=True):
        assert (one.limit, one.stops) == (other.limit, other.stops)
        assert one.saved_usd == pytest.approx(other.saved_usd)
        assert one.idle_usd == pytest.approx(other.idle_usd)

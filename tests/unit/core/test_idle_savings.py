"""What idle rules saved: an hour at a price is that price, and stricter never saves less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.idle_savings import FORGOTTEN, Savings, Session, savings

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def session(*idle: timedelta, **changes: Any) -> Session:
    known: dict[str, Any] = {
        "user": "ann",
        "server": "",
        "requested_at": NOW - 20 * HOUR,
        "ended_at": NOW - 16 * HOUR,
        "stopped_as_idle": False,
        "idle": idle,
        "idle_usd_per_hour": 2.0,
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
    stopped = session(HOUR, stopped_as_idle=True)
    again = session(requested_at=NOW - 13 * HOUR, ended_at=NOW - 12 * HOUR)
    elsewhere = session(server="other", requested_at=NOW - 15 * HOUR)
    assert savings([again, stopped, elsewhere], [], NOW).stops_saved_usd == pytest.approx(3 * 2.0)
    assert savings([stopped], [], NOW).stops_saved_usd == pytest.approx(FORGOTTEN / HOUR * 2.0)
    just_now = session(HOUR, stopped_as_idle=True, ended_at=NOW - MINUTE)
    assert savings([just_now], [], NOW).stops_saved_usd == pytest.approx(2.0 / 60)
    assert savings([again, elsewhere], [], NOW).stops_saved_usd == 0


def test_an_unknown_price_is_counted_and_in_no_sum() -> None:
    unknown = session(HOUR, idle_usd_per_hour=None, stopped_as_idle=True)
    never_idle = session(idle_usd_per_hour=None)
    found = savings([unknown, never_idle, session(HOUR)], [MINUTE], NOW)
    assert (found.sessions, found.unknown, found.idle_usd) == (2, 1, 2.0)
    assert found.stops_saved_usd == 0


SESSIONS = st.lists(
    st.builds(
        lambda idle, price, is_stop: session(
            *idle, idle_usd_per_hour=price, stopped_as_idle=is_stop
        ),
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

"""When a rule of the pool is in force: across midnight, changes of the clock and its lead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ec2spawner.config.working_hours import hours
from ec2spawner.core.hours_of_week import Hours
from ec2spawner.core.pool.schedule import is_in_force, next_change

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = hours("Mon-Fri 08:30-18:00 Europe/Berlin")


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-11-20 08:26", True),  # a Friday; with four minutes of lead it begins at 8:26
        ("2026-11-20 08:25", False),
        ("2026-11-20 17:59", True),
        ("2026-11-20 18:00", False),
        ("2026-11-21 12:00", False),
        ("2026-07-20 08:26", True),
        ("2026-07-20 08:25", False),
    ],
)
def test_hours_begin_a_lead_earlier_and_end_on_time(at: str, expected: bool) -> None:
    assert is_in_force(OFFICE, berlin(at), lead=240) == expected


def test_a_rule_without_hours_is_always_in_force() -> None:
    assert is_in_force(None, berlin("2026-11-21 03:00"), lead=240)
    assert next_change(None, berlin("2026-11-21 03:00"), lead=240) is None


def test_hours_across_midnight_belong_to_the_day_on_which_they_begin() -> None:
    night = hours("Fri 22:00-06:00 Europe/Berlin")
    assert is_in_force(night, berlin("2026-11-21 05:59"))
    assert not is_in_force(night, berlin("2026-11-20 05:59"))
    assert next_change(night, berlin("2026-11-20 23:00")) == berlin("2026-11-21 06:00")
    assert next_change(night, berlin("2026-11-21 06:00")) == berlin("2026-11-27 22:00")


def test_times_of_day_stay_when_the_clock_changes() -> None:
    """In the night to the 29th of March 2026 clocks go forward, on the 25th of October back."""
    mornings = hours("Sun 06:00-12:00 Europe/Berlin")
    for saturday, sunday in (("2026-03-28", "2026-03-29"), ("2026-10-24", "2026-10-25")):
        begins = next_change(mornings, berlin(f"{saturday} 12:00"), lead=300)
        assert begins == berlin(f"{sunday} 05:55")
        assert next_change(mornings, begins, lead=300) == berlin(f"{sunday} 12:00")


def test_hours_without_a_gap_never_change() -> None:
    always = hours("Mon-Sun 00:00-24:00 Europe/Berlin")
    assert next_change(always, berlin("2026-03-27 12:00")) is None
    workweek = hours("Mon-Sat 00:00-24:00 Europe/Berlin")
    assert next_change(workweek, berlin("2026-11-16 12:00")) == berlin("2026-11-22 00:00")


def test_a_lead_bridges_a_short_gap() -> None:
    nearly_always = hours("Mon-Sun 00:05-24:00 UTC")
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert next_change(nearly_always, at, lead=299) == datetime(2026, 11, 21, tzinfo=UTC)
    assert next_change(nearly_always, at, lead=300) is None


def test_hours_that_a_change_of_the_clock_skips_still_end() -> None:
    """On the 29th of March 02:30 is 03:30: the next window is two weeks away."""
    skipped = hours("Sun 02:30-03:10 Europe/Berlin")
    assert not is_in_force(skipped, berlin("2026-03-29 03:05"))
    assert next_change(skipped, berlin("2026-03-22 02:45")) == berlin("2026-03-22 03:10")


weeks = st.builds(
    Hours,
    st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    st.sampled_from([0, 30, 120, 150, 510, 1080, 1410]),
    st.sampled_from([60, 120, 180, 360, 540, 1080, 1440]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]),
).filter(lambda week: week.from_minute != week.to_minute)
instants = st.builds(
    lambda day, minutes: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day, minutes=minutes),
    st.sampled_from([*range(36), *range(232, 250)]),  # around the changes of the clock
    st.integers(0, 143).map(lambda tens: tens * 10),
)


@given(weeks, instants, st.sampled_from([0, 300, 900, 3600]))
@settings(max_examples=60, deadline=None)
def test_the_next_change_is_the_one_that_asking_each_five_minutes_finds(
    week: Hours, at: datetime, lead: float
) -> None:
    step = timedelta(minutes=5)
    now = is_in_force(week, at, lead)
    found = next_change(week, at, lead)
    until = found if found is not None else at + timedelta(days=7)
    assert all(
        is_in_force(week, at + step * number, lead) == now for number in range((until - at) // step)
    )
    assert found is None or is_in_force(week, found, lead) != now

"""Hours of the week: parsed, described in words, and the stop that follows across their ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.config.working_hours import WorkingHoursConfig
from ec2spawner.core.idle.working_hours import stop_after
from ec2spawner.wire import WorkingHours

BERLIN = ZoneInfo("Europe/Berlin")


def hours(when: str, server: str | int = "3h") -> WorkingHours:
    return WorkingHoursConfig.model_validate({"when": when, "server": server}).hours()


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


def are_on(week: WorkingHours, at: datetime) -> bool:
    """Whether these hours decide at that instant: within them nothing ends, beside them all."""
    within = week.model_copy(update={"server_seconds": 0})
    return stop_after(at - timedelta(seconds=1), 1, within) != at


@pytest.mark.parametrize(
    ("when", "days", "from_minute", "to_minute", "timezone"),
    [
        ("Mon-Fri 08:00-18:00 Europe/Berlin", [0, 1, 2, 3, 4], 480, 1080, "Europe/Berlin"),
        ("Mon,Wed-Fri 09:15-17:45 America/New_York", [0, 2, 3, 4], 555, 1065, "America/New_York"),
        ("Sat-Sun 00:00-24:00 UTC", [5, 6], 0, 1440, "UTC"),
        ("Mon-Sun 22:00-06:00 Asia/Kolkata", [*range(7)], 1320, 360, "Asia/Kolkata"),
    ],
)
def test_a_week_is_parsed_as_written(
    when: str, days: list[int], from_minute: int, to_minute: int, timezone: str
) -> None:
    read = hours(when)
    assert sorted(read.days) == days
    assert (read.from_minute, read.to_minute, read.timezone) == (from_minute, to_minute, timezone)


def test_a_week_may_be_written_over_the_weekend() -> None:
    assert hours("Fri-Mon 08:00-12:00 UTC").days == [0, 4, 5, 6]
    assert hours("fri-MON 8:00-12:00 UTC") == hours("Fri-Mon 08:00-12:00 UTC")


@pytest.mark.parametrize(
    ("at", "on"),
    [
        ("2026-11-20 08:00", True),
        ("2026-11-20 17:59", True),
        ("2026-11-20 18:00", False),
        ("2026-11-20 07:59", False),
        ("2026-11-21 12:00", False),  # a Saturday
        ("2026-07-20 08:00", True),
        ("2026-07-20 18:00", False),
    ],
)
def test_working_hours_at_given_instants(at: str, on: bool) -> None:
    assert are_on(hours("Mon-Fri 08:00-18:00 Europe/Berlin"), berlin(at)) == on


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    night = hours("Fri 22:00-06:00 Europe/Berlin")
    assert are_on(night, berlin("2026-11-21 05:59"))
    assert not are_on(night, berlin("2026-11-21 06:00"))
    assert not are_on(night, berlin("2026-11-20 05:59"))


def test_daylight_saving_changes_between_idleness_and_stop() -> None:
    """In the night to the 29th of March clocks go forward at 2:00, on the 25th of October back."""
    every = hours("Mon-Sun 00:00-24:00 Europe/Berlin", "3h")
    idle_since = berlin("2026-03-29 01:00")
    assert stop_after(idle_since, 3600, every) == berlin("2026-03-29 05:00")
    mornings = hours("Sun 06:00-12:00 Europe/Berlin", "2h")
    for day in ("2026-03-29", "2026-10-25"):
        assert are_on(mornings, berlin(f"{day} 06:00"))
        assert not are_on(mornings, berlin(f"{day} 12:00"))
        assert stop_after(berlin(f"{day} 05:30"), 3600, mornings) == berlin(f"{day} 07:30")
    skipped = hours("Sun 02:15-02:45 Europe/Berlin", "9h")
    assert stop_after(berlin("2026-03-29 01:30"), 3600, skipped) is not None


def test_limits_of_zero_and_of_more_than_a_week() -> None:
    friday = berlin("2026-11-20 12:00")
    office = "Mon-Fri 08:00-18:00 Europe/Berlin"
    assert stop_after(friday, 0, hours(office, 0)) is None
    assert stop_after(friday, 3600, hours(office, 0)) == berlin("2026-11-20 18:00")
    assert stop_after(friday, 0, hours(office, "3h")) == berlin("2026-11-20 15:00")
    assert stop_after(berlin("2026-11-20 17:00"), 0, hours(office, "3h")) == berlin(
        "2026-11-23 08:00"
    )
    always = "Mon-Sun 00:00-24:00 Europe/Berlin"
    assert stop_after(friday, 3600, hours(always, "30d")) == friday + timedelta(days=30)
    assert stop_after(friday, 3600, hours(always, 0)) is None


def test_the_first_instant_belongs_to_the_hours() -> None:
    office = hours("Mon-Fri 08:00-18:00 Europe/Berlin", "3h")
    assert stop_after(berlin("2026-11-20 07:00"), 3600, office) == berlin("2026-11-20 10:00")
    assert stop_after(berlin("2026-11-20 06:50"), 3600, office) == berlin("2026-11-20 07:50")


def test_an_unknown_time_zone_leaves_the_other_limit() -> None:
    nowhere = hours("Mon-Sun 00:00-24:00 UTC").model_copy(update={"timezone": "../etc/passwd"})
    friday = berlin("2026-11-20 12:00")
    assert stop_after(friday, 3600, nowhere) == friday + timedelta(hours=1)
    assert stop_after(friday, 0, nowhere) is None


limits = st.sampled_from([0, 600, 3600, 3 * 3600, 12 * 3600, 3 * 86400])
weeks = st.builds(
    WorkingHours,
    days=st.lists(st.integers(0, 6), max_size=7, unique=True),
    from_minute=st.integers(0, 143).map(lambda tens: tens * 10),
    to_minute=st.integers(1, 144).map(lambda tens: tens * 10),
    timezone=st.sampled_from(["Europe/Berlin", "UTC", "Asia/Kolkata", "America/New_York"]),
    server_seconds=limits,
)
around = st.sampled_from(
    [datetime(2026, month, day, tzinfo=UTC) for month, day in ((3, 28), (10, 24), (7, 1))]
)
STEP = timedelta(minutes=10)


@given(weeks, limits, around, st.integers(0, 7 * 144))
def test_it_stops_exactly_at_the_limit_of_those_hours(
    week: WorkingHours, outside: float, day: datetime, tens: int
) -> None:
    idle_since = day + tens * STEP
    found = stop_after(idle_since, outside, week)
    at, by_looking = idle_since, None
    # All limits, and all ends of hours, are multiples of ten minutes here.
    while by_looking is None and at < idle_since + timedelta(days=11):
        lasted = (at - idle_since).total_seconds()
        reached = {limit for limit in (week.server_seconds, outside) if 0 < limit <= lasted}
        if reached and (week.server_seconds if are_on(week, at) else outside) in reached:
            by_looking = at
        at += STEP
    assert found == by_looking

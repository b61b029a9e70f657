"""How many instances wait with `auto`: from starts of earlier weeks, few or many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.pool.forecast import MARGIN, Basis, Forecast, forecast

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
"""A Tuesday, 9:00 in Berlin."""
LONG_AGO = NOW - timedelta(days=60)
BOOT = 240.0


def starts_at(*instants: datetime, number: int = 1, apart: float = 5.0) -> Sequence[datetime]:
    return sorted(
        at + timedelta(seconds=apart * place) for at in instants for place in range(number)
    )


def weeks_ago(number: int, **later: float) -> datetime:
    """This time of day so many weeks ago; summer time ended on the 25th of October."""
    here = NOW.astimezone(BERLIN) - timedelta(weeks=number)
    return here.astimezone(UTC) + timedelta(**later)


def of(starts: Sequence[datetime], now: datetime = NOW, since: datetime = LONG_AGO) -> Forecast:
    return forecast(starts, since, now, BOOT, BERLIN)


def test_a_class_that_begins_each_tuesday_at_nine_is_expected() -> None:
    """Thirty starts within three minutes: none of their instances would be replaced by then."""
    course = starts_at(*(weeks_ago(week) for week in (1, 2, 3, 4)), number=30)
    found = of(course, NOW - timedelta(minutes=5))
    assert (found.running, found.basis) == (30, Basis.SAME_WEEKDAY)
    assert [day.starts for day in found.days] == [30, 30, 30, 30]
    assert of(course, NOW - timedelta(hours=1)).running == 0
    assert of(course, NOW - timedelta(days=1, minutes=5)).running == 0, "nothing on Mondays"


def test_starts_spread_over_the_hour_need_few_places() -> None:
    """One every four minutes: the place that one takes is free again for the next."""
    spread = starts_at(*(weeks_ago(week) for week in (1, 2, 3, 4)), number=15, apart=BOOT + 1)
    assert of(spread).running == 1


def test_a_class_that_is_late_today_is_still_expected_and_one_that_came_is_not() -> None:
    course = starts_at(*(weeks_ago(week) for week in (1, 2, 3, 4)), number=30)
    late = NOW + timedelta(minutes=10)
    assert of(course, late).running == 30
    here = [*course, *starts_at(NOW, number=28)]
    found = of(here, late)
    assert (found.started_today, found.running) == (28, 2)


def test_who_came_early_does_not_take_the_places_of_a_class_ahead() -> None:
    course = starts_at(*(weeks_ago(week) for week in (1, 2, 3, 4)), number=30)
    early = [*course, *starts_at(NOW - timedelta(minutes=12), number=5)]
    assert of(early, NOW - timedelta(minutes=5)).running == 30


@pytest.mark.parametrize(
    ("by_week", "expected"),
    [
        ((30, 0, 30, 30), 30),  # a holiday
        ((30, 0, 30, 0), 30),  # a course every other week
        ((3, 50, 3, 3), 3),  # an event
        ((0, 0, 0, 30), 0),  # a course that has ended
        ((31, 28, 30, 29), 30),
    ],
)
def test_neither_holidays_nor_one_exceptional_day_decide(
    by_week: Sequence[int], expected: int
) -> None:
    starts = sorted(
        start
        for week, number in enumerate(by_week, start=1)
        for start in starts_at(weeks_ago(week), number=number)
    )
    found = of(starts)
    assert found.running == expected
    assert [day.starts for day in found.days] == list(by_week)


def test_of_two_known_days_the_busiest_counts() -> None:
    starts = starts_at(weeks_ago(1), number=20)
    assert of(starts, since=NOW - timedelta(days=15)).running == 20


def test_the_time_of_day_counts_across_the_end_of_summer_time() -> None:
    """Three weeks ago, nine in Berlin was 7:00 UTC."""
    now = datetime(2026, 11, 10, 8, 0, tzinfo=UTC)
    weeks = (datetime(2026, 10, day, 7, 0, tzinfo=UTC) for day in (13, 20))
    course = starts_at(*weeks, number=9)
    assert of(course, now).running == 9


@pytest.mark.parametrize(
    ("known", "basis", "days"),
    [
        (timedelta(hours=5), Basis.NONE, 0),
        (timedelta(days=3, hours=1), Basis.SAME_KIND_OF_DAY, 1),  # Monday; the weekend is no guide
        (timedelta(days=8, hours=1), Basis.SAME_KIND_OF_DAY, 6),
        (timedelta(days=15), Basis.SAME_WEEKDAY, 2),
    ],
)
def test_a_young_hub_says_what_it_rests_on(known: timedelta, basis: Basis, days: int) -> None:
    busy = starts_at(*(NOW - timedelta(days=day) for day in range(1, 20)), number=7)
    since = NOW - known
    found = of([each for each in busy if each >= since], since=since)
    assert (found.basis, len(found.days)) == (basis, days)
    assert found.running == (7 if days else 0)


instants = st.integers(0, 28 * 24 * 60).map(lambda minutes: NOW - timedelta(minutes=minutes))


@given(st.lists(instants, max_size=60).map(sorted), st.floats(0, 7200))
def test_never_more_than_any_day_had_and_never_below_zero(
    starts: Sequence[datetime], boot: float
) -> None:
    found = forecast(starts, LONG_AGO, NOW, boot, BERLIN)
    assert 0 <= found.running <= max((day.peak for day in found.days), default=0)
    assert all(day.peak_ahead <= day.peak <= day.starts for day in found.days)
    earliest = NOW - timedelta(days=28) - MARGIN
    assert (
        forecast([each for each in starts if each >= earliest], LONG_AGO, NOW, boot, BERLIN)
        == found
    )

"""For whom instances are kept ahead: who is expected until when, how many, on which instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.hours_of_week import Hours
from ec2spawner.core.pool.forecast import WEEKS
from ec2spawner.core.pool.homes_ahead import (
    AHEAD,
    LATE,
    MIN_WEEKS,
    Expected,
    Start,
    expected,
    in_their_zones,
    most_homes,
)
from ec2spawner.core.pool.rules import PoolRule, PoolRules
from ec2spawner.wire import Market

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
"""A Tuesday, 9:00 in Berlin."""


def weeks_ago(number: int, **later: float) -> datetime:
    """This time of day so many weeks ago; summer time ended on the 25th of October."""
    here = NOW.astimezone(BERLIN) - timedelta(weeks=number)
    return here.astimezone(UTC) + timedelta(**later)


def of(*starts: tuple[datetime, str], now: datetime = NOW) -> Sequence[str]:
    return [each.user for each in found(*starts, now=now)]


def found(*starts: tuple[datetime, str], now: datetime = NOW) -> Sequence[Expected]:
    return expected(sorted((at, user, "") for at, user in starts), now, BERLIN)


def test_who_came_in_two_of_the_last_four_weeks_at_this_time_is_expected() -> None:
    habit = [(weeks_ago(1), "ada"), (weeks_ago(3, minutes=-20), "ada"), (weeks_ago(2), "bob")]
    assert of(*habit) == ["ada"], "once is no habit"
    assert of(*habit, now=NOW - timedelta(minutes=30)) == ["ada"]
    assert of(*habit, now=NOW + timedelta(minutes=1)) == [], "ada has never come so late"
    assert of(*habit, now=NOW + timedelta(days=1)) == []


def test_a_user_is_expected_until_a_while_after_the_latest_of_these_starts() -> None:
    habit = [(weeks_ago(1), "ada"), (weeks_ago(3, minutes=-20), "ada")]
    for minutes in (-30, -20, 0):
        [each] = found(*habit, now=NOW + timedelta(minutes=minutes))
        assert each.until == NOW + LATE


def test_starts_of_other_weekdays_and_of_longer_ago_do_not_count() -> None:
    daily = [(NOW - timedelta(days=day), "ada") for day in range(1, 7)]
    assert of(*daily) == []
    assert of((weeks_ago(5), "ada"), (weeks_ago(6), "ada"), (weeks_ago(1), "ada")) == []


def test_several_starts_of_one_day_are_one() -> None:
    assert of(*[(weeks_ago(1, minutes=minute), "ada") for minute in range(5)]) == []


def test_who_has_started_today_is_not_expected_again() -> None:
    habit = [(weeks_ago(week), "ada") for week in (1, 2, 3, 4)]
    assert of(*habit) == ["ada"]
    assert of(*habit, (NOW - timedelta(minutes=25), "ada")) == []


def test_the_most_regular_come_first() -> None:
    users = of(
        *[(weeks_ago(week), "two") for week in (2, 4)],
        *[(weeks_ago(week), "four") for week in (1, 2, 3, 4)],
        *[(weeks_ago(week), "lately") for week in (1, 4)],
    )
    assert users == ["four", "lately", "two"]


def test_the_time_of_day_counts_across_the_end_of_summer_time() -> None:
    """Three and four weeks before the tenth, nine in Berlin was 7:00 UTC."""
    now = datetime(2026, 11, 10, 8, 0, tzinfo=UTC)
    summer = [(datetime(2026, 10, day, 7, 0, tzinfo=UTC), "ada") for day in (13, 20)]
    assert of(*summer, now=now) == ["ada"]


def test_servers_of_one_user_are_distinct() -> None:
    starts = sorted((weeks_ago(week), "ada", name) for week in (1, 2) for name in ("", "gpu"))
    assert {each[:2] for each in expected(starts, NOW, BERLIN)} == {("ada", ""), ("ada", "gpu")}


starts_of_weeks = st.lists(
    st.tuples(
        st.integers(-20, 45 * 24 * 60).map(lambda minutes: NOW - timedelta(minutes=minutes)),
        st.sampled_from(["ada", "bob", "eva"]),
        st.sampled_from(["", "gpu"]),
    ),
    max_size=80,
).map(sorted)


@given(starts_of_weeks)
def test_only_servers_with_a_start_near_this_time_in_enough_weeks(starts: Sequence[Start]) -> None:
    until = {(user, name): each for user, name, each in expected(starts, NOW, BERLIN)}
    for server in {(user, name) for _, user, name in starts}:
        mine = [at for at, *rest in starts if tuple(rest) == server]
        weeks = sum(
            any(weeks_ago(week) - LATE <= at <= weeks_ago(week) + AHEAD for at in mine)
            for week in range(1, WEEKS + 1)
        )
        today = any(NOW - LATE - AHEAD <= at <= NOW for at in mine)
        later = any(
            weeks_ago(week) <= at <= weeks_ago(week) + AHEAD
            for week in range(1, WEEKS + 1)
            for at in mine
        )
        assert (server in until) == (weeks >= MIN_WEEKS and later and not today)
        assert NOW + LATE <= until.get(server, NOW + LATE) <= NOW + AHEAD + LATE


@given(st.integers(0, 59), st.integers(0, 59))
def test_no_user_is_expected_again_after_having_been_expected(one: int, other: int) -> None:
    """So an instance that was kept in vain for a user is not followed by another one."""
    habit = [(weeks_ago(1, minutes=one), "zoe"), (weeks_ago(2, minutes=other), "zoe")]
    times = [NOW + timedelta(minutes=each) for each in range(-90, 180)]
    seen = [(at, each.until) for at in times for each in found(*habit, now=at)]
    assert all(at < until for at, until in seen)
    assert all(at < seen[0][1] for at, _ in seen)


# --- how many ---


def test_of_several_entries_in_force_the_largest_number_holds() -> None:
    mornings = Hours(tuple(range(7)), 8 * 60, 10 * 60, "Europe/Berlin")
    rules = PoolRules(
        (
            PoolRule("t4", 5, Market.SPOT, homes_ahead=2),
            PoolRule("t4", 9, Market.SPOT, mornings, homes_ahead=4),
            PoolRule("t4", 9, Market.ON_DEMAND),
        )
    )

    def numbers(now: datetime, leads: Mapping[str, float]) -> Mapping[object, int]:
        return {group: rule.homes_ahead for group, rule in most_homes(rules, now, leads).items()}

    assert numbers(NOW, {}) == {("t4", Market.SPOT): 4}
    assert numbers(NOW + timedelta(hours=3), {}) == {("t4", Market.SPOT): 2}
    early = NOW - timedelta(hours=1, minutes=3)
    assert numbers(early, {}) == {("t4", Market.SPOT): 2}
    assert numbers(early, {"t4": 240.0}) == {("t4", Market.SPOT): 4}


# --- which instance ---


@given(
    st.lists(st.sampled_from("abc"), max_size=12),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), max_size=4),
    st.integers(-2, 8),
)
def test_each_home_is_on_an_instance_of_its_own_in_its_zone(
    zones: Sequence[str], numbers: Mapping[str, int], most: int
) -> None:
    homes = [(zone, number) for number, zone in enumerate(zones)]
    waiting = {zone: [f"i-{zone}{n}" for n in range(number)] for zone, number in numbers.items()}
    pairs = list(in_their_zones(homes, waiting, most))
    assert len(pairs) <= max(most, 0)
    assert len({instance for _, instance in pairs}) == len(pairs)
    assert len({home for home, _ in pairs}) == len(pairs)
    assert all(instance in waiting[zones[home]] for home, instance in pairs)
    assert [home for home, _ in pairs] == sorted(home for home, _ in pairs)
    room = sum(min(zones.count(zone), len(ids)) for zone, ids in waiting.items())
    assert len(pairs) == min(room, max(most, 0)), "none is left out that has an instance"


@pytest.mark.parametrize("most", [0, 1])
def test_the_first_home_comes_first(most: int) -> None:
    homes = [("b", "first"), ("a", "second"), ("a", "third")]
    pairs = list(in_their_zones(homes, {"a": ["i-1", "i-2"]}, most))
    assert [home for home, _ in pairs] == ["second"][:most]

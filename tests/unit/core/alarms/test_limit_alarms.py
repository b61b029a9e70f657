"""Alarms about limits: near, reached, and refused starts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ec2spawner.core.alarms.alarm import Alarm, AlarmRules, Kind
from ec2spawner.core.alarms.limit_rules import denied_start, limit_alarm
from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.limits.admission import Obstacle, Refusal
from ec2spawner.core.limits.bounds import AtLimit, Bounds
from ec2spawner.core.limits.bounds import Kind as LimitKind
from ec2spawner.core.limits.standing import standings, standings_at_once

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
RULES = AlarmRules()
USD = 1_000_000_000
MONTHLY = Bounds(usd_per_month=100)


def alarms(bounds: Bounds, usd: float, today: date = TODAY) -> list[Alarm]:
    days = {today: Amount(round(usd * USD), 0)}
    standing = standings("group:lab", bounds, days, today)
    found = [limit_alarm(each, bounds, today, RULES, NOW) for each in standing]
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("usd", "ends"),
    [(0, ""), (89, ""), (90, "near"), (99, "near"), (100, "reached"), (150, "reached")],
)
def test_a_limit_is_reported_when_most_of_it_is_used_and_when_all_is(usd: float, ends: str) -> None:
    found = alarms(MONTHLY, usd)
    assert [alarm.subject.rpartition("/")[2] for alarm in found] == ([ends] if ends else [])


def test_a_month_has_one_alarm_of_each_kind() -> None:
    [first] = alarms(MONTHLY, 91)
    [later] = alarms(MONTHLY, 95, TODAY + timedelta(days=9))
    [next_month] = alarms(MONTHLY, 95, TODAY + timedelta(days=19))
    assert first.alarm_id == later.alarm_id != next_month.alarm_id


def test_a_window_is_reported_once_a_week() -> None:
    window = Bounds(usd_per_window=100, window_days=7)
    ids = {alarms(window, 95, TODAY + timedelta(days=n))[0].alarm_id for n in range(14)}
    assert len(ids) == 3, "two weeks touch three weeks of the calendar"


def test_more_than_a_limit_allows_at_once_is_reported_once_a_day() -> None:
    bounds = Bounds(usd_per_hour=5, servers=2)
    for rate, servers, ends in [(5, 2, []), (6, 2, ["usd_per_hour"]), (4, 3, ["servers"])]:
        standing = standings_at_once("group:lab", bounds, rate * USD, servers, 0)
        found = [limit_alarm(each, bounds, TODAY, RULES, NOW) for each in standing]
        subjects = [each.subject for each in found if each is not None]
        assert subjects == [f"group:lab/{kind}/exceeded" for kind in ends]
    [rate_limit, _] = standings_at_once("group:lab", bounds, 6 * USD, 0, 1)
    days = [TODAY, TODAY, TODAY + timedelta(days=1)]
    first, again, tomorrow = (limit_alarm(rate_limit, bounds, day, RULES, NOW) for day in days)
    assert first is not None
    assert again is not None
    assert tomorrow is not None
    assert first.alarm_id == again.alarm_id != tomorrow.alarm_id
    assert "at least $6 per hour" in first.body
    assert "$5 per hour of group lab" in first.body


def test_the_text_says_what_happens_and_until_when() -> None:
    [stops] = alarms(MONTHLY, 100)
    [warns] = alarms(Bounds(usd_per_month=100, at_limit=AtLimit.WARN), 100)
    assert "group lab" in stops.title
    assert "$100 per month" in stops.body
    assert "1 December 2026" in stops.body
    assert "stopped" in stops.body
    assert "stopped" not in warns.body


def test_a_refused_start_is_reported_once_a_day_for_each_limit() -> None:
    refusal = Refusal("user:ann", Obstacle.LIMIT, LimitKind.MONTH, 100 * USD, USD, 2 * USD)
    first = denied_start("ann", "T4", refusal, TODAY, NOW)
    again = denied_start("ann", "A10G", refusal, TODAY, NOW + timedelta(hours=1))
    assert first.kind is Kind.DENIED_START
    assert first.alarm_id == again.alarm_id
    assert "$1 left" in first.body


def test_an_unknown_price_is_a_reason_too() -> None:
    refusal = Refusal("user:ann", Obstacle.UNKNOWN_PRICE)
    assert "price" in denied_start("ann", "T4", refusal, TODAY, NOW).body

"""The weekly summary: when it is due, and what it says."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.alarms.alarm import Alarm
from ec2spawner.core.alarms.summary import weekly_summary
from ec2spawner.core.alarms.weekly import Schedule, Week
from ec2spawner.core.ledger.cost_rows import CostSum

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = Schedule(weekday=0, minute=480)
WEEK = Week(date(2026, 11, 16), date(2026, 11, 22))
NOW = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)
HOUR = 3_600_000_000


def cost(
    payer: str, user: str, purpose: str, usd: float, hours: float, unknown: int = 0
) -> CostSum:
    nano = round(usd * 1e9)
    key = (payer, user, purpose)
    return CostSum(key, nano, 2 * nano, nano, unknown, round(hours * HOUR), hours * HOUR)


def said(*costs: CostSum) -> Alarm:
    return weekly_summary(WEEK, costs, [], NOW)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-23T07:00", "2026-11-23T07:00"),
        ("2026-11-23T06:59", "2026-11-16T07:00"),
        ("2026-11-22T23:30", "2026-11-16T07:00"),
        ("2026-03-30T05:59", "2026-03-23T07:00"),  # summer time began on the 29th
        ("2026-03-30T06:00", "2026-03-30T06:00"),
    ],
)
def test_it_is_due_at_the_local_time(now: str, due: str) -> None:
    at, expected = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (now, due))
    assert MONDAY.latest_due(at, BERLIN) == expected


@given(
    st.integers(0, 4 * 365 * 24 * 60).map(lambda minutes: NOW + timedelta(minutes=minutes)),
    st.integers(0, 6),
    st.integers(0, 1439),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"]),
)
def test_the_last_due_instant_is_past_and_less_than_a_week_old(
    now: datetime, weekday: int, minute: int, zone: str
) -> None:
    place = ZoneInfo(zone)
    due = Schedule(weekday, minute).latest_due(now, place)
    assert timedelta() <= now - due < timedelta(days=7, hours=2), "clocks may be set by an hour"
    assert due.astimezone(place).weekday() == weekday


def test_a_week_is_the_last_seven_days_that_were_over() -> None:
    assert Week.before(NOW, BERLIN) == WEEK
    assert WEEK.previous.last == date(2026, 11, 15)


def test_purposes_and_payers_add_up_to_the_cost() -> None:
    body = said(
        cost("group:lab", "ann", "used", 60, 30),
        cost("group:lab", "ben", "idle", 20, 10),
        cost("user:ben", "ben", "used", 10, 5),
        cost("hub", "", "overhead", 10, 5),
    ).body
    assert "Cost: 100.00 USD. The week before: 0.00 USD." in body
    assert "included): 70.00 USD (70 %), 35.0 GPU-hours" in body
    assert "idle: 20.00 USD (20 %), 10.0 GPU-hours" in body
    assert "kept and surplus instances): 10.00 USD (10 %), 5.0 GPU-hours" in body
    assert "- group:lab: 80.00 USD, 40.0 GPU-hours, 25 % idle" in body
    assert "- ben: 30.00 USD, 15.0 GPU-hours, 67 % idle" in body
    assert "saved 100.00 USD" in body
    assert "Estimated" in body


def test_users_who_pay_for_themselves_are_not_listed_twice() -> None:
    assert said(cost("user:ann", "ann", "used", 60, 30)).body.count("ann") == 1


def test_unknown_prices_make_a_lower_bound() -> None:
    assert "lower bounds" not in said(cost("user:ann", "ann", "used", 1, 1)).body
    assert "lower bounds" in said(cost("user:ann", "ann", "used", 1, 1, unknown=2)).body


def test_a_week_without_servers_has_a_summary_too() -> None:
    alarm = said()
    assert "0.00 USD" in alarm.title
    assert "By payer" not in alarm.body


def test_many_users_are_counted_instead_of_listed() -> None:
    body = said(*(cost("group:lab", f"user-{n}", "used", n, 1) for n in range(50))).body
    assert "user-49" in body
    assert "user-3:" not in body
    assert "and 30 more" in body
    assert len(body) < 4000, "most chats cut longer messages"


def test_one_week_has_one_identity() -> None:
    again = weekly_summary(WEEK, [], [], NOW + timedelta(hours=3))
    assert again.alarm_id == said().alarm_id

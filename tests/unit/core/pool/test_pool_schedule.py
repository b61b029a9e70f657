"""When a rule of the pool is in force: across midnight, changes of the clock and its lead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ec2spawner.config.working_hours import hours
from ec2spawner.core.pool.schedule import is_in_force

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
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


def test_hours_across_midnight_belong_to_the_day_on_which_they_begin() -> None:
    night = hours("Fri 22:00-06:00 Europe/Berlin")
    assert is_in_force(night, berlin("2026-11-21 05:59"))
    assert not is_in_force(night, berlin("2026-11-20 05:59"))
    assert not is_in_force(night, berlin("2026-11-21 06:00"))


def test_times_of_day_stay_when_the_clock_changes() -> None:
    """In the night to the 29th of March 2026 clocks go forward, on the 25th of October back."""
    mornings = hours("Sun 06:00-12:00 Europe/Berlin")
    for saturday, sunday in (("2026-03-28", "2026-03-29"), ("2026-10-24", "2026-10-25")):
        assert not is_in_force(mornings, berlin(f"{saturday} 12:00"), lead=300)
        begins = berlin(f"{sunday} 05:55")
        assert not is_in_force(mornings, begins - MINUTE, lead=300)
        assert is_in_force(mornings, begins, lead=300)
        assert is_in_force(mornings, berlin(f"{sunday} 11:59"), lead=300)
        assert not is_in_force(mornings, berlin(f"{sunday} 12:00"), lead=300)


def test_a_lead_bridges_a_short_gap() -> None:
    nearly_always = hours("Mon-Sun 00:05-24:00 UTC")
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert not is_in_force(nearly_always, at, lead=299)
    assert is_in_force(nearly_always, at, lead=300)


def test_hours_that_a_change_of_the_clock_skips_still_end() -> None:
    """On the 29th of March 02:30 is 03:30: the next window is two weeks away."""
    skipped = hours("Sun 02:30-03:10 Europe/Berlin")
    assert is_in_force(skipped, berlin("2026-03-22 02:45"))
    assert not is_in_force(skipped, berlin("2026-03-22 03:10"))
    assert not is_in_force(skipped, berlin("2026-03-29 03:05"))

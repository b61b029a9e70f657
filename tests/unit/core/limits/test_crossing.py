"""Since when a share of a window or a credit has been used: once per crossing."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.limits.bounds import NANO, Bounds, Kind
from ec2spawner.core.limits.crossing import passed_on
from ec2spawner.core.limits.standing import PERCENT, used_on

FIRST = date(2026, 11, 1)
DAY = timedelta(days=1)
LIMIT = 20

spending = st.dictionaries(
    st.integers(-30, 29).map(lambda number: FIRST + number * DAY),
    st.integers(0, 12 * NANO).map(Amount),
    max_size=50,
)


@given(spending, st.integers(1, 20), st.integers(0, 6), st.sampled_from(PERCENT))
def test_a_share_is_passed_anew_only_after_it_fell_below(
    days: dict[date, Amount], window: int, refill: int, percent: int
) -> None:
    bounds = Bounds(
        usd_per_window=LIMIT, window_days=window, credit_usd=LIMIT, credit_usd_per_day=refill
    )
    for kind in (Kind.WINDOW, Kind.CREDIT):
        seen: date | None = None
        for number in range(30):
            today = FIRST + number * DAY
            by_now = {day: spent for day, spent in days.items() if day <= today}
            before = {day: spent for day, spent in days.items() if day < today}
            morning, evening = (used_on(kind, bounds, x, today) for x in (before, by_now))
            if evening * 100 < percent * LIMIT * NANO:
                seen = None
                continue
            found = passed_on(kind, bounds, by_now, today, percent)
            if morning * 100 < percent * LIMIT * NANO:
                assert found == today, "passed today"
            else:
                assert found == (seen or FIRST), "and nothing has changed since"
            seen = found


def test_other_limits_are_news_once_a_month() -> None:
    assert passed_on(Kind.MONTH, Bounds(usd_per_month=1), {}, FIRST, 25) is None
    assert passed_on(Kind.CREDIT, Bounds(credit_usd=0), {}, FIRST, 100) is None

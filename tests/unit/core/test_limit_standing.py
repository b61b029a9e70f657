"""How much of a limit is used: months, windows and credits, in calendar days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.limits.bounds import NANO, Bounds, Kind
from ec2spawner.core.limits.standing import Standing, fold_credit, next_month, standings, used_on

FIRST = date(2026, 1, 20)

usd = st.integers(0, 20 * NANO)
spending = st.dictionaries(
    st.integers(0, 60).map(lambda days: FIRST + timedelta(days=days)),
    st.builds(Amount, usd, usd),
    max_size=30,
)
days_after = st.integers(0, 70).map(lambda days: FIRST + timedelta(days=days))


def credit_left(bounds: Bounds, days: Mapping[date, Amount], today: date) -> Fraction:
    """A bucket, day by day: refilled at each midnight, emptied by what is spent."""
    assert bounds.credit_usd is not None
    full, bucket = Fraction(round(bounds.credit_usd * NANO)), Fraction(bounds.credit_usd) * NANO
    day = FIRST
    while day <= today:
        if day > FIRST:
            bucket = min(bucket + bounds.refill, full)
        bucket -= days.get(day, Amount()).nano_usd
        day += timedelta(days=1)
    return bucket


@given(spending, days_after, st.integers(1, 50), st.integers(0, 10))
def test_a_credit_is_a_bucket_that_is_refilled_each_day(
    days: dict[date, Amount], today: date, credit: int, refill: int
) -> None:
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    used = used_on(Kind.CREDIT, bounds, days, today)
    assert credit * NANO - used == credit_left(bounds, days, today)


@given(spending, days_after, days_after, st.integers(1, 50), st.integers(0, 3))
def test_a_credit_does_not_forget_its_debt_with_the_days(
    days: dict[date, Amount], until: date, today: date, credit: int, refill: int
) -> None:
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    until, today = min(until, today), max(until, today)
    folded = fold_credit(bounds, days, until)
    assert all(day >= until for day in folded)
    for later in (today, today + timedelta(days=9)):
        whole = used_on(Kind.CREDIT, bounds, days, later)
        assert used_on(Kind.CREDIT, bounds, folded, later) == whole


@given(spending, days_after, st.integers(1, 31))
def test_a_window_counts_its_days_and_a_month_its_own(
    days: dict[date, Amount], today: date, length: int
) -> None:
    bounds = Bounds(usd_per_month=1, usd_per_window=1, window_days=length, gpu_hours_per_month=1)
    window = [today - timedelta(days=back) for back in range(length)]
    month = [day for day in days if day.strftime("%Y-%m") == today.strftime("%Y-%m")]
    month = [day for day in month if day <= today]
    spent = {day: days.get(day, Amount()) for day in (*window, *month)}
    assert used_on(Kind.WINDOW, bounds, days, today) == sum(spent[d].nano_usd for d in window)
    assert used_on(Kind.MONTH, bounds, days, today) == sum(spent[d].nano_usd for d in month)
    assert used_on(Kind.GPU_HOURS, bounds, days, today) == sum(
        spent[d].gpu_microseconds for d in month
    )


@given(spending, days_after, st.integers(1, 20))
def test_more_is_left_on_the_day_on_which_a_limit_renews_and_not_before(
    days: dict[date, Amount], today: date, length: int
) -> None:
    days = {day: spent for day, spent in days.items() if day <= today}
    bounds = Bounds(usd_per_window=5, window_days=length, credit_usd=9, credit_usd_per_day=2)
    for each in standings("user:ann", bounds, days, today):
        if each.renews is None or not each.used:
            continue
        before = used_on(each.kind, bounds, days, each.renews - timedelta(days=1))
        after = used_on(each.kind, bounds, days, each.renews)
        assert before == each.used
        assert after < each.used


def test_a_month_renews_on_the_first() -> None:
    assert next_month(date(2026, 12, 31)) == date(2027, 1, 1)
    assert next_month(date(2028, 2, 29)) == date(2028, 3, 1)
    [standing] = standings("hub", Bounds(usd_per_month=1), {}, date(2026, 1, 31))
    assert standing.renews == date(2026, 2, 1)


def test_thresholds_are_passed_only_when_their_share_is_used() -> None:
    passed = {
        used: Standing("hub", Kind.MONTH, 1000, used).threshold
        for used in (0, 249, 250, 749, 750, 999, 1000, 5000)
    }
    assert passed == {0: 0, 249: 0, 250: 25, 749: 50, 750: 75, 999: 75, 1000: 100, 5000: 100}
    assert Standing("hub", Kind.MONTH, 0, 0).is_reached


def test_a_one_time_credit_never_renews() -> None:
    [standing] = standings(
        "project:nlp", Bounds(credit_usd=1), {FIRST: Amount(NANO)}, FIRST + timedelta(days=300)
    )
    assert standing.is_reached
    assert standing.renews is None

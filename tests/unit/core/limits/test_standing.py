"""How much of a limit is used: months, windows and credits, in calendar days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.limits.bounds import NANO, Bounds, Kind
from ec2spawner.core.limits.standing import (
    Standing,
    fold_credit,
    next_month,
    standings,
    standings_at_once,
    used_on,
)

FIRST = date(2026, 1, 20)

usd = st.integers(0, 20 * NANO)
spending = st.dictionaries(
    st.integers(0, 60).map(lambda days: FIRST + timedelta(days=days)),
    st.builds(Amount, usd, usd),
    max_size=30,
)
with_gaps = st.dictionaries(
    st.integers(0, 15).map(lambda days: FIRST + timedelta(days=days)),
    st.builds(Amount, st.integers(0, 3 * NANO), uncounted=st.sampled_from([0, 0, 0, 1, 2])),
    max_size=12,
)
with_storage = st.dictionaries(
    st.integers(0, 60).map(lambda days: FIRST + timedelta(days=days)),
    st.builds(
        lambda server, home: Amount(server + home, storage_nano_usd=home),
        st.integers(0, 3 * NANO),
        st.integers(0, 3 * NANO),
    ),
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


@given(with_storage, days_after, days_after, st.integers(1, 20), st.integers(0, 3))
def test_a_folded_credit_is_filled_by_storage_as_with_all_days(
    days: dict[date, Amount], until: date, today: date, credit: int, refill: int
) -> None:
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    until, today = min(until, today), max(until, today)
    folded = days
    for back in (9, 0):  # again and again, as a hub does each day
        folded = fold_credit(bounds, folded, until - timedelta(days=back))
    for later in (today, today + timedelta(days=9)):
        assert standings("user:ann", bounds, folded, later) == standings(
            "user:ann", bounds, days, later
        )


def at_least(bounds: Bounds, days: Mapping[date, Amount], today: date) -> bool:
    [standing] = standings("user:ann", bounds, days, today)
    return standing.at_least


@given(with_gaps, st.integers(1, 6), st.integers(0, 3), st.integers(0, 100))
def test_a_credit_is_a_lower_bound_until_no_gap_within_it_can_matter(
    days: dict[date, Amount], credit: int, refill: int, percent: int
) -> None:
    """Whatever the first and last part without a price have cost: the whole credit at most."""
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    gaps = sorted(day for day in days if days[day].uncounted)
    whole = dict(days)
    for day, share in zip([*gaps[:1], *gaps[-1:]], (percent, 100 - percent), strict=False):
        whole[day] += Amount(credit * NANO * share // 100)
    for number in range(30):
        today = FIRST + timedelta(days=number)
        if not at_least(bounds, days, today):
            used = used_on(Kind.CREDIT, bounds, days, today)
            assert used_on(Kind.CREDIT, bounds, whole, today) == used


@given(st.integers(1, 50), st.integers(1, 10), st.integers(1, 3))
def test_a_gap_in_a_credit_ends_when_it_is_refilled_and_not_before(
    credit: int, refill: int, gaps: int
) -> None:
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    days = {FIRST + timedelta(days=number): Amount(uncounted=1) for number in range(gaps)}
    full = max(days) + timedelta(days=-(-credit // refill))
    assert at_least(bounds, days, full - timedelta(days=1))
    assert not at_least(bounds, days, full)
    once = replace(bounds, credit_usd_per_day=None)
    assert at_least(once, days, full + timedelta(days=3000)), "never refilled"


@given(with_gaps, days_after, days_after, st.integers(1, 6), st.integers(0, 3))
def test_a_folded_credit_has_the_gap_of_its_days_and_no_longer(
    days: dict[date, Amount], until: date, today: date, credit: int, refill: int
) -> None:
    bounds = Bounds(credit_usd=credit, credit_usd_per_day=refill)
    until, today = min(until, today), max(until, today)
    folded = days
    for back in (9, 1, 0):  # again and again, as a hub does each day
        folded = fold_credit(bounds, folded, until - timedelta(days=back))
    assert len([day for day in folded if day <= until]) <= 2
    for later in range(30):
        day = today + timedelta(days=later)
        assert at_least(bounds, folded, day) == at_least(bounds, days, day)
        whole = used_on(Kind.CREDIT, bounds, days, day)
        assert used_on(Kind.CREDIT, bounds, folded, day) == whole


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


@given(spending, days_after, st.integers(1, 40))
def test_a_limit_counts_nothing_from_before_its_days(
    days: dict[date, Amount], today: date, length: int
) -> None:
    bounds_of = {
        Kind.MONTH: Bounds(usd_per_month=1),
        Kind.WINDOW: Bounds(usd_per_window=1, window_days=length),
        Kind.GPU_HOURS: Bounds(gpu_hours_per_month=1),
    }
    for kind, bounds in bounds_of.items():
        first = today - timedelta(days=bounds.days - 1)
        remembered = {day: spent for day, spent in days.items() if day >= first}
        assert used_on(kind, bounds, remembered, today) == used_on(kind, bounds, days, today)


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


def test_a_limit_of_what_runs_together_may_be_full() -> None:
    bounds = Bounds(usd_per_hour=1, servers=2)
    full = standings_at_once("hub", bounds, NANO, 2, 0)
    assert [each.threshold for each in full] == [0, 0]
    exceeded = list(standings_at_once("hub", bounds, NANO + 1, 3, 1))
    assert [(x.kind, x.threshold, x.at_least) for x in exceeded] == [
        (Kind.RATE, 100, True),
        (Kind.SERVERS, 100, False),
    ]


def test_only_what_a_limit_counts_makes_it_a_lower_bound() -> None:
    today = date(2026, 11, 20)
    bounds = Bounds(usd_per_month=1, usd_per_window=1, window_days=3, gpu_hours_per_month=1)
    of_days = {
        today - timedelta(days=back): standings(
            "hub", bounds, {today - timedelta(days=back): Amount(uncounted=1)}, today
        )
        for back in (0, 3, 30)
    }
    marked = [[x.kind for x in found if x.at_least] for found in of_days.values()]
    assert marked == [[Kind.MONTH, Kind.WINDOW], [Kind.MONTH], []]


def test_a_one_time_credit_never_renews() -> None:
    [standing] = standings(
        "project:nlp", Bounds(credit_usd=1), {FIRST: Amount(NANO)}, FIRST + timedelta(days=300)
    )
    assert standing.is_reached
    assert standing.renews is None


def test_storage_uses_a_limit_up_only_if_it_does_so_without_servers() -> None:
    bounds = Bounds(usd_per_month=10, usd_per_window=10, window_days=7, gpu_hours_per_month=1)
    day = date(2026, 11, 20)
    home = Amount(4 * NANO, storage_nano_usd=4 * NANO)
    server = Amount(9 * NANO, 3.6e9)
    with_server = standings("user:ada", bounds, {day: home + server}, day)
    assert {each.is_reached for each in with_server} == {True}
    assert not any(each.is_filled_by_storage for each in with_server)
    days = {day - timedelta(days=number): home for number in range(3)}
    by_homes = standings("user:ada", bounds, days, day)
    assert {each.kind for each in by_homes if each.is_filled_by_storage} == {
        Kind.MONTH,
        Kind.WINDOW,
    }

"""When a limit will be reached: exact where nothing renews before, and across midnights."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import Amount
from ec2spawner.core.ledger.local_days import local_day
from ec2spawner.core.limits.bounds import GPU_HOUR, NANO, Bounds, Kind
from ec2spawner.core.limits.forecast import HORIZON_DAYS, reached_at
from ec2spawner.core.limits.standing import used_on

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_month_is_reached_after_what_is_left_at_the_present_rate() -> None:
    bounds = Bounds(usd_per_month=10)
    days = {date(2026, 11, 3): Amount(4 * NANO), date(2026, 10, 31): Amount(90 * NANO)}
    at = reached_at(Kind.MONTH, bounds, days, 2 * NANO, NOON, UTC)
    assert at == NOON + timedelta(hours=3)


def test_a_limit_that_renews_before_is_not_reached() -> None:
    days = {date(2026, 11, 3): Amount(4 * NANO)}
    slow = NANO // 100
    assert reached_at(Kind.MONTH, Bounds(usd_per_month=10), days, slow, NOON, UTC) is None
    assert reached_at(Kind.MONTH, Bounds(usd_per_month=10), days, 0, NOON, UTC) is None
    assert reached_at(Kind.MONTH, Bounds(), days, NANO, NOON, UTC) is None


def test_gpu_hours_are_reached_by_the_gpus_that_run() -> None:
    at = reached_at(Kind.GPU_HOURS, Bounds(gpu_hours_per_month=8), {}, 4 * GPU_HOUR, NOON, BERLIN)
    assert at == NOON + timedelta(hours=2)


def test_the_last_evening_of_a_month_is_that_of_the_hubs_time_zone() -> None:
    evening = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # half past midnight in Berlin
    days = {date(2026, 11, 20): Amount(9 * NANO)}
    limit, rate = Bounds(usd_per_month=10), 3 * NANO
    at_berlin = reached_at(Kind.MONTH, limit, days, rate, evening, BERLIN)
    assert at_berlin == evening + timedelta(hours=10) / 3
    assert reached_at(Kind.MONTH, limit, days, rate, evening, UTC) == evening + timedelta(
        minutes=20
    )


def test_a_day_of_25_hours_refills_a_credit_once() -> None:
    midnight = datetime(2026, 10, 24, 22, tzinfo=UTC)  # the 25th begins in Berlin
    bounds = Bounds(credit_usd=30, credit_usd_per_day=5)
    at = reached_at(Kind.CREDIT, bounds, {}, NANO, midnight, BERLIN)
    # 25 hours leave 5; the next midnight adds 5.
    assert at == midnight + timedelta(hours=35)


def test_a_credit_that_refills_as_fast_as_it_is_spent_is_never_used_up() -> None:
    bounds = Bounds(credit_usd=30, credit_usd_per_day=5)
    assert reached_at(Kind.CREDIT, bounds, {}, NANO // 5, NOON, BERLIN) is None


@given(
    st.dictionaries(
        st.integers(0, 20).map(lambda back: date(2026, 11, 20) - timedelta(days=back)),
        st.integers(0, 5 * NANO).map(Amount),
    ),
    st.integers(1, 60),
    st.integers(1, 10),
    st.integers(0, 5),
    st.integers(1, 4 * NANO),
)
def test_at_the_forecast_instant_the_limit_is_used_up_and_a_minute_before_it_is_not(
    days: dict[date, Amount], limit: int, window: int, refill: int, rate: int
) -> None:
    bounds = Bounds(
        usd_per_window=limit, window_days=window, credit_usd=limit, credit_usd_per_day=refill
    )

    def used_at(kind: Kind, at: datetime) -> int:
        spent, since = dict(days), NOON
        while since < at:
            day = local_day(since, BERLIN)
            ends = min(at, datetime.combine(day + timedelta(days=1), datetime.min.time(), BERLIN))
            more = Amount(rate * round((ends - since).total_seconds()) // 3600)
            spent[day] = spent.get(day, Amount()) + more
            since = ends
        return used_on(kind, bounds, spent, local_day(at, BERLIN))

    for kind in (Kind.WINDOW, Kind.CREDIT):
        at = reached_at(kind, bounds, days, rate, NOON, BERLIN)
        if at is None:
            end = NOON + timedelta(days=HORIZON_DAYS - 1)
            assert used_at(kind, end) <= limit * NANO + rate
        elif at > NOON + timedelta(minutes=2):
            before = at - timedelta(minutes=1)
            assert used_at(kind, before) < limit * NANO + rate // 3600 + 2 * HORIZON_DAYS
            if local_day(at, BERLIN) == local_day(before, BERLIN):
                assert used_at(kind, at) >= limit * NANO - rate // 3600 - 2 * HORIZON_DAYS

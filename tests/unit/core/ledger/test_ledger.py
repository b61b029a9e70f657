"""The ledger is exact: parts add up to the sum, and the sum to a second-by-second account."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ec2spawner.core.ledger.amount import (
    Amount,
    add_to_day,
    amounts_by_day,
    assumed_amount_of,
    assumed_by_day,
)
from ec2spawner.core.ledger.cost import known_nano_usd, nano_usd
from ec2spawner.core.ledger.cost_rows import (
    Cause,
    CostRow,
    Dimension,
    Purpose,
    Resource,
    merge_sums,
    sum_rows,
)
from ec2spawner.core.ledger.exact import microseconds, price_units
from ec2spawner.core.ledger.idle_spans import MAX_SPANS, IdleSpan, record
from ec2spawner.core.ledger.lease_costs import Account, Course, lease_costs, overhead_costs
from ec2spawner.core.ledger.local_days import askable, is_askable, local_day, midnight, split_by_day
from ec2spawner.core.ledger.months import month_rate
from ec2spawner.core.ledger.segments import Segment, close, reprice
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ADA = Account("ada", "", "user:ada", "t4")
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York")]

prices = st.integers(0, 10**7).map(lambda units: units / 10**5)
monthly_prices = st.just(0.0) | prices
address_prices = st.sampled_from([0.0, 0.005])
seconds = st.integers(0, 16 * 86400)
"""Across the end of a month."""
markets = st.sampled_from([Market.SPOT, Market.ON_DEMAND])


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


new_prices = st.builds(
    lambda instance, disk, address: Segment(
        "i-x",
        Market.SPOT,
        instance,
        NOW,
        source="new",
        disk_usd_per_month=disk,
        address_usd_per_hour=address,
    ),
    prices,
    st.none() | monthly_prices,
    st.none() | address_prices,
)
"""As `reprice` takes them; None is not known any more."""


@st.composite
def price_paths(draw: st.DrawFn) -> tuple[Segment, ...]:
    """What a lease may have: instances one after the other, spot prices that change, and instants
    of a clock that was set."""
    found: list[Segment] = []
    start = draw(seconds)
    for number in range(draw(st.integers(1, 3))):
        market = draw(markets)
        current: tuple[Segment, ...] = (
            Segment(
                f"i-{number}",
                market,
                draw(prices),
                at(start),
                instance_type="g4dn.xlarge",
                zone="us-east-1a",
                gpus=1.0,
                on_demand_usd_per_hour=draw(prices),
                disk_usd_per_month=draw(monthly_prices),
                address_usd_per_hour=draw(address_prices),
            ),
        )
        clock = start
        for _ in range(draw(st.integers(0, 3))):
            clock += draw(st.integers(-3600, 7200))
            current = reprice(current, at(clock), draw(new_prices))
        start = max(clock, start) + draw(st.integers(0, 7200))
        found += close(current, at(start))
    return tuple(found)


@st.composite
def paths_with_gaps(draw: st.DrawFn) -> tuple[Segment, ...]:
    """The same, where some prices of some segments are unknown."""
    unknown = st.sets(
        st.sampled_from(
            (
                "usd_per_hour",
                "on_demand_usd_per_hour",
                "disk_usd_per_month",
                "address_usd_per_hour",
            )
        )
    )
    return tuple(
        replace(each, **dict.fromkeys(draw(unknown), None)) for each in draw(price_paths())
    )


courses = st.builds(
    lambda ready, lasts, ended, spans: Course(
        None if ready is None else at(ready),
        None if lasts is None else at((ready or 0) + lasts),
        ended,
        tuple(IdleSpan(at(a), None if b is None else at(a + b)) for a, b in sorted(spans)),
    ),
    st.none() | seconds,
    st.none() | seconds,
    st.booleans(),
    st.lists(st.tuples(seconds, st.integers(0, 7200)), max_size=4),
)


def usd_of_second(segment: Segment, instant: datetime) -> Fraction:
    """Of instance, disks and address; a month has the seconds of the actual one, in UTC."""
    hourly = Fraction(str(segment.usd_per_hour)) + Fraction(str(segment.address_usd_per_hour))
    days = calendar.monthrange(instant.year, instant.month)[1]
    return hourly / 3600 + Fraction(str(segment.disk_usd_per_month)) / (days * 86400)


def second_by_second(segments: Sequence[Segment]) -> Fraction:
    """USD, counted in the simplest way: each second at its price, a minute at least."""
    total = Fraction(0)
    lasted: dict[str, int] = {}
    first: dict[str, Segment] = {}
    for segment in segments:
        assert segment.end is not None
        first.setdefault(segment.instance_id, segment)
        count = max(int((segment.end - segment.start).total_seconds()), 0)
        lasted[segment.instance_id] = lasted.get(segment.instance_id, 0) + count
        for hour in range(count // 3600):
            instant = segment.start + timedelta(hours=hour)
            following = instant + timedelta(hours=1)
            if following.month == instant.month:
                total += 3600 * usd_of_second(segment, instant)
                continue
            for second in range(3600):
                total += usd_of_second(segment, instant + timedelta(seconds=second))
        for second in range(count // 3600 * 3600, count):
            total += usd_of_second(segment, segment.start + timedelta(seconds=second))
    for instance_id, segment in first.items():
        for second in range(lasted[instance_id], 60):
            total += usd_of_second(segment, segment.start + timedelta(seconds=second))
    return total


@given(price_paths())
def test_the_cost_is_that_of_each_second(segments: tuple[Segment, ...]) -> None:
    cost = nano_usd(segments, NOW)
    assert cost is not None
    assert abs(Fraction(cost, 10**9) - second_by_second(segments)) < Fraction(1, 10**6)


@given(price_paths(), courses, st.sampled_from(ZONES))
def test_used_idle_and_overhead_add_up_to_the_cost(
    segments: tuple[Segment, ...], course: Course, place: ZoneInfo
) -> None:
    rows = lease_costs(segments, course, ADA, NOW, place)
    assert sum(row.nano_usd or 0 for row in rows) == nano_usd(segments, NOW)
    listed = [replace(each, usd_per_hour=each.on_demand_usd_per_hour) for each in segments]
    assert sum(row.on_demand_nano_usd or 0 for row in rows) == nano_usd(listed, NOW)
    lasted = sum(microseconds(each.end) - microseconds(each.start) for each in segments if each.end)
    instances = [row for row in rows if row.resource is Resource.INSTANCE]
    assert sum(row.microseconds for row in instances) == lasted
    for row in rows:
        if row.resource is not Resource.INSTANCE:
            assert abs((row.on_demand_nano_usd or 0) - (row.nano_usd or 0)) <= 1, "but for rounding"
    assert all((row.nano_usd or 0) >= 0 and row.microseconds >= 0 for row in rows)
    assert {row.cause for row in rows if row.purpose is not Purpose.OVERHEAD} <= {""}


@given(paths_with_gaps(), courses, st.sampled_from(ZONES))
def test_lines_have_all_that_is_known_or_assumed_of_a_lease_with_unknown_prices(
    segments: tuple[Segment, ...], course: Course, place: ZoneInfo
) -> None:
    """As it is counted while the lease is in memory, so that nothing jumps when it is not."""
    rows = lease_costs(segments, course, ADA, NOW, place)
    known, _ = known_nano_usd(segments, NOW)
    assert sum(row.nano_usd or 0 for row in rows) == known
    of_rows: dict[date, Amount] = {}
    for row in rows:
        add_to_day(of_rows, row.day, assumed_amount_of(row))
    in_memory = assumed_by_day(segments, NOW, place)
    for day in of_rows | in_memory:
        found, expected = of_rows.get(day, Amount()), in_memory.get(day, Amount())
        assert abs(found.nano_usd - expected.nano_usd) <= 2 * len(rows), "but for rounding"
        assert found.gpu_microseconds == pytest.approx(expected.gpu_microseconds)
        assert found.is_known == expected.is_known
        assert (found.uncounted > 0) == (expected.uncounted > 0)
        is_assumed = [each.unknown != each.uncounted for each in (found, expected)]
        assert is_assumed[0] == is_assumed[1]


@given(price_paths(), courses, seconds, st.sampled_from(ZONES))
def test_each_second_has_the_purpose_of_its_instant(
    segments: tuple[Segment, ...], course: Course, probe: int, place: ZoneInfo
) -> None:
    """Of one second anywhere, the line says what its instant was for."""
    instant = at(probe)
    second = replace(segments[0], start=instant, end=instant + timedelta(seconds=1))
    rows = [row for row in lease_costs([second], course, ADA, NOW, place) if row.microseconds]
    assert {row.day for row in rows} == {local_day(instant, place)}
    ready, stop = course.ready_at, course.stop_requested_at
    is_idle = any(
        span.start <= instant and (span.end is None or instant < span.end)
        for span in course.idle_spans
    )
    if ready is None or instant < ready or (stop is not None and instant >= max(stop, ready)):
        expected = Purpose.OVERHEAD
    else:
        expected = Purpose.IDLE if is_idle else Purpose.USED
    assert {row.purpose for row in rows} == {expected}


@given(price_paths(), courses, st.lists(seconds, min_size=2, max_size=5).map(sorted))
def test_the_cost_of_a_running_lease_never_falls(
    segments: tuple[Segment, ...], course: Course, instants: list[int]
) -> None:
    assert segments[-1].end is not None
    running = (*segments[:-1], replace(segments[-1], end=None))
    start = segments[-1].start
    costs = [nano_usd(running, start + timedelta(seconds=each)) or 0 for each in instants]
    assert costs == sorted(costs)
    by_rows = [
        sum(
            row.nano_usd or 0
            for row in lease_costs(running, course, ADA, start + timedelta(seconds=each), UTC)
        )
        for each in instants
    ]
    assert by_rows == costs


@given(price_paths(), st.sampled_from(ZONES), st.permutations(list(Dimension)))
def test_sums_by_any_dimensions_are_the_whole(
    segments: tuple[Segment, ...], place: ZoneInfo, dimensions: list[Dimension]
) -> None:
    rows = lease_costs(segments, Course(NOW, at(3600)), ADA, NOW, place)
    [whole] = sum_rows(rows, ())
    parts = sum_rows(rows, dimensions[:3])
    assert sum(each.nano_usd for each in parts) == whole.nano_usd == nano_usd(segments, NOW)
    assert sum(each.microseconds for each in parts) == whole.microseconds
    half = len(rows) // 2
    merged = merge_sums(
        sum_rows(rows[:half], dimensions[:3]), sum_rows(rows[half:], dimensions[:3])
    )
    assert [(x.key, x.nano_usd) for x in merged] == [(x.key, x.nano_usd) for x in parts]


def test_sums_count_only_what_is_asked_for() -> None:
    rows = overhead_costs(
        [Segment("i-1", Market.SPOT, 0.36, at(0), at(3600), gpus=4.0)], Cause.UNASSIGNED, NOW, UTC
    )
    assert sum_rows(rows, (), {Dimension.CAUSE: ["retention"]}) == ()
    [found] = sum_rows(rows, (Dimension.CAUSE,), {Dimension.PAYER: ["hub"]})
    assert found.key == ("unassigned",)
    assert found.nano_usd == 360_000_000
    assert found.gpu_microseconds == 4 * 3600 * 10**6


def test_a_line_of_an_unknown_price_is_unknown_and_the_others_are_not() -> None:
    known = Segment("i-1", Market.SPOT, 3.6, at(0), at(100))
    rows = lease_costs(
        [known, replace(known, usd_per_hour=None, start=at(86400), end=at(86500))],
        Course(at(0)),
        ADA,
        NOW,
        UTC,
    )
    assert [row.nano_usd for row in rows] == [100_000_000, None]
    [total] = sum_rows(rows, ())
    assert (total.nano_usd, total.unknown) == (100_000_000, 1)
    assert nano_usd([known, replace(known, usd_per_hour=None)], NOW) is None


@pytest.mark.parametrize(
    ("course", "causes"),
    [
        (Course(), {"start", "minimum"}),
        (Course(has_ended=True), {"failed-start", "minimum"}),
        (Course(stop_requested_at=at(5)), {"failed-start", "minimum"}),
        (Course(at(4), at(8)), {"start", "", "termination", "minimum"}),
    ],
)
def test_overhead_has_a_cause(course: Course, causes: set[str]) -> None:
    rows = lease_costs([Segment("i-1", Market.SPOT, 3.6, at(0), at(10))], course, ADA, NOW, UTC)
    assert {row.cause for row in rows} == causes
    assert sum(row.nano_usd or 0 for row in rows) == 60_000_000


def test_prices_are_taken_as_they_are_written() -> None:
    assert price_units(0.1) == 100_000_000_000
    assert price_units(0.5260000001) == 526_000_000_100
    assert price_units(32) == 32 * 10**12


# --- days ---


@given(seconds, seconds, st.sampled_from(ZONES))
@example(0, 4 * 86400, ZoneInfo("America/New_York"))
def test_a_period_is_split_at_each_midnight(start: int, lasts: int, place: ZoneInfo) -> None:
    begin, finish = microseconds(at(start)), microseconds(at(start + lasts))
    parts = list(split_by_day(begin, finish, place))
    assert sum(b - a for _, a, b in parts) == finish - begin
    assert all(a < b for _, a, b in parts)
    assert [day for day, _, _ in parts] == sorted({day for day, _, _ in parts})
    for day, first, last in parts:
        assert microseconds(midnight(day, place)) <= first
        assert last <= microseconds(midnight(day + timedelta(days=1), place))


def test_costs_can_be_asked_for_until_a_year_ahead() -> None:
    today, day = date(2026, 11, 23), timedelta(days=1)
    first, last = date(2000, 1, 1), date(2027, 11, 24)
    assert askable(today) == f"from {first} to {last}"
    assert all(is_askable(each, today) for each in (first, today, last))
    assert not any(is_askable(each, today) for each in (first - day, last + day))


def test_days_have_the_length_that_clocks_give_them() -> None:
    place = ZoneInfo("Europe/Berlin")
    spring, autumn = date(2026, 3, 29), date(2026, 10, 25)
    for day, hours in ((spring, 23), (autumn, 25), (date(2026, 11, 23), 24)):
        lasts = midnight(day + timedelta(days=1), place) - midnight(day, place)
        assert lasts == timedelta(hours=hours)


# --- months ---


@given(st.integers(0, 10**13), seconds, st.integers(0, 100 * 86400))
def test_a_month_costs_the_price_of_a_month_whatever_its_length(
    units: int, start: int, lasts: int
) -> None:
    begin, finish = microseconds(at(start)), microseconds(at(start + lasts))
    parts = list(month_rate(units, begin, finish))
    assert sum(b - a for _, a, b in parts) == finish - begin
    for rate, a, b in parts:
        first = datetime.fromtimestamp(a // 10**6, UTC).replace(day=1, hour=0, minute=0, second=0)
        following = (first + timedelta(days=32)).replace(day=1)
        hours = (following - first) // timedelta(hours=1)
        assert b <= microseconds(following)
        assert abs(rate * hours - units) <= hours, "1e-12 USD an hour at most"


def test_a_february_hour_costs_more_than_one_of_march() -> None:
    """EBS divides the price of a month by the seconds of the actual one."""
    begin = microseconds(datetime(2026, 2, 28, 23, tzinfo=UTC))
    february, march = month_rate(price_units(8.0), begin, begin + 2 * 3600 * 10**6)
    assert february[0] == round(8e12 / (28 * 24))
    assert march[0] == round(8e12 / (31 * 24))
    assert february[2] == march[1] == microseconds(datetime(2026, 3, 1, tzinfo=UTC))


# --- idle spans ---

reports = st.lists(
    st.tuples(st.integers(1, 600), st.none() | st.integers(0, 1200)), min_size=1, max_size=40
)


@given(reports)
def test_spans_are_ordered_disjoint_and_never_in_the_future(
    drawn: list[tuple[int, int | None]],
) -> None:
    spans: tuple[IdleSpan, ...] = ()
    clock, last_work = 0, 0
    for step, idle_for in drawn:
        clock += step
        since = None if idle_for is None else max(clock - idle_for, last_work)
        last_work = clock if since is None else max(since, last_work)
        spans = record(spans, None if since is None else at(since), at(clock))
        assert all(span.end is not None for span in spans[:-1])
        edges = [edge for span in spans for edge in span if edge is not None]
        assert edges == sorted(edges)
        assert all(edge <= at(clock) for edge in edges)
        if since is None:
            assert not spans or spans[-1].end is not None
        elif clock - since >= 60:
            assert spans[-1].end is None


def test_short_pauses_are_use() -> None:
    assert record((), at(0), at(59)) == ()
    spans = record((), at(0), at(60))
    assert spans == (IdleSpan(at(0)),)
    assert record(spans, at(0), at(120)) == spans
    assert record(spans, None, at(130)) == (IdleSpan(at(0), at(130)),)
    assert record(spans, at(130), at(140)) == (IdleSpan(at(0), at(130)),)
    assert record(spans, at(130), at(200)) == (IdleSpan(at(0), at(130)), IdleSpan(at(130)))


def test_spans_of_one_lease_are_bounded() -> None:
    spans: tuple[IdleSpan, ...] = ()
    for number in range(MAX_SPANS + 20):
        began = at(1000 * number)
        spans = record(spans, began, began + timedelta(seconds=100 + number))
        spans = record(spans, None, began + timedelta(seconds=100 + number))
    assert len(spans) == MAX_SPANS
    assert spans[-1].start == at(1000 * (MAX_SPANS + 19))
    assert min(span.start for span in spans) == at(1000 * 20), "the shortest were dropped"


def _whole(rows: Sequence[CostRow]) -> int:
    return sum(row.nano_usd or 0 for row in rows)


def test_overhead_has_no_minimum() -> None:
    segment = Segment("i-1", Market.SPOT, 3.6, at(0), at(10))
    assert _whole(overhead_costs([segment], Cause.UNASSIGNED, NOW, UTC)) == 10_000_000
    assert overhead_costs([replace(segment, end=at(-5))], Cause.UNASSIGNED, NOW, UTC) == ()


@given(price_paths(), seconds, st.sampled_from(ZONES))
def test_amounts_by_day_are_those_of_the_lines(
    segments: tuple[Segment, ...], probe: int, place: ZoneInfo
) -> None:
    now = segments[-1].start + timedelta(seconds=probe)
    running = (*segments[:-1], replace(segments[-1], end=None))
    amounts = amounts_by_day(running, now, place)
    lines = sum_rows(lease_costs(running, Course(NOW), ADA, now, place), (Dimension.DAY,))
    assert {str(day) for day in amounts} == {key for (key,) in (each.key for each in lines)}
    for line in lines:
        amount = amounts[date.fromisoformat(line.key[0])]
        assert abs(amount.nano_usd - line.nano_usd) <= 1
        assert amount.gpu_microseconds == line.gpu_microseconds


def test_an_agent_cannot_fill_the_store_with_spans() -> None:
    """It says each second that the server was idle for long, or that it is busy."""
    spans: tuple[IdleSpan, ...] = ()
    changes = 0
    for second in range(1200):
        before = spans
        clock = at(1000 + second)
        since = None if second % 2 else clock - timedelta(seconds=61)
        spans = record(spans, since, clock)
        changes += spans != before
    assert changes <= 2 * 1200 / 60 + 2

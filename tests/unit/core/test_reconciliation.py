"""The difference between record and bill is split into reasons that add up to it exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.bills.bill_lines import BillLine, Charge, hours_in_microseconds, nano_of
from ec2spawner.core.bills.reconciliation import (
    UNSETTLED,
    Comparison,
    Period,
    Reason,
    Reconciliation,
    reconcile,
)
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.wire import Market

DAY = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
PERIOD = Period(DAY, DAY + 5 * 24 * HOUR)
NOW = PERIOD.end + 5 * 24 * HOUR
USD = 1_000_000_000

SEGMENT = Segment(
    "i-1", Market.ON_DEMAND, 1.0, DAY + HOUR, DAY + 5 * HOUR, instance_type="g5.xlarge"
)
LINE = BillLine(
    "i-1",
    DAY + HOUR,
    DAY + 5 * HOUR,
    Charge.INSTANCE,
    4 * USD,
    4 * USD,
    4 * 3_600_000_000,
    "BoxUsage:g5.xlarge",
)
LATER = replace(LINE, resource_id="i-of-others", start=PERIOD.end - HOUR, end=PERIOD.end)
"""The bill is complete: somebody else's instance is in its last hour."""


def compared(
    segments: list[Segment], lines: list[BillLine], *, complete: bool = True
) -> Reconciliation:
    lines = [*lines, LATER] if complete else lines
    return reconcile(segments, lines, PERIOD, hub="demo", now=NOW)


def one(segments: list[Segment], lines: list[BillLine], *, complete: bool = True) -> Comparison:
    [found] = compared(segments, lines, complete=complete).instances
    return found


def reasons(found: Comparison) -> dict[Reason, int]:
    return {part.reason: part.nano_usd for part in found.parts}


def test_what_agrees_has_no_parts() -> None:
    found = one([SEGMENT], [LINE])
    assert (found.recorded, found.billed, reasons(found)) == (4 * USD, 4 * USD, {})
    assert found.is_settled


def test_credits_tax_and_other_usage_of_an_instance_are_parts_of_their_own() -> None:
    more = [
        replace(LINE, charge=Charge.CREDIT, nano_usd=-USD, microseconds=0),
        replace(LINE, charge=Charge.TAX, nano_usd=7, microseconds=0),
        replace(LINE, charge=Charge.OTHER_USAGE, nano_usd=5, microseconds=0),
    ]
    found = one([SEGMENT], [LINE, *more])
    assert reasons(found) == {Reason.CREDIT: -USD, Reason.TAX: 7, Reason.OTHER_USAGE: 5}


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [(1, Reason.ROUNDING), (-40, Reason.TIMING), (400, Reason.HOURS), (-400, Reason.HOURS)],
)
def test_more_or_fewer_billed_seconds_count_at_the_recorded_price(
    seconds: int, reason: Reason
) -> None:
    more = seconds * USD // 3600
    lasted = LINE.microseconds + seconds * 1_000_000
    line = replace(LINE, nano_usd=LINE.nano_usd + more, list_nano_usd=None, microseconds=lasted)
    found = one([SEGMENT], [line])
    assert reasons(found)[reason] == pytest.approx(more, abs=2)
    assert found.is_settled is (reason is not Reason.HOURS)


def test_time_after_the_end_of_the_bill_is_late() -> None:
    half = replace(
        LINE,
        end=DAY + 3 * HOUR,
        nano_usd=2 * USD,
        list_nano_usd=2 * USD,
        microseconds=7_200_000_000,
    )
    assert reasons(one([SEGMENT], [half], complete=False)) == {Reason.LATE_DATA: -2 * USD}


def test_fewer_billed_hours_are_late_only_while_the_instance_is_young() -> None:
    hour = replace(LINE, nano_usd=USD, list_nano_usd=USD, microseconds=3_600_000_000)
    assert reasons(one([SEGMENT], [hour])) == {Reason.HOURS: -3 * USD}
    start, end = PERIOD.end - 5 * HOUR, PERIOD.end - HOUR
    young = replace(SEGMENT, start=start, end=end)
    line = replace(hour, start=start, end=end)
    assert reasons(one([young], [line])) == {Reason.LATE_DATA: -3 * USD}


def test_seconds_are_billed_as_a_minute() -> None:
    brief = replace(SEGMENT, end=SEGMENT.start + timedelta(seconds=5))
    minute = replace(LINE, nano_usd=USD // 60, list_nano_usd=USD // 60, microseconds=60_000_000)
    found = one([brief], [minute])
    assert (found.recorded, found.recorded_microseconds) == (USD // 60, 60_000_000)
    assert found.is_settled


def test_time_billed_after_the_recorded_end_is_unexplained() -> None:
    before = replace(SEGMENT, start=DAY - 5 * HOUR, end=DAY - HOUR)
    found = one([before], [LINE])
    assert (found.recorded, found.recorded_microseconds) == (0, 0)
    assert reasons(found) == {Reason.UNEXPLAINED: 4 * USD}


def test_an_instance_that_the_bill_lacks_is_late_only_while_it_is_young() -> None:
    assert reasons(one([SEGMENT], [])) == {Reason.NOT_BILLED: -4 * USD}
    young = replace(SEGMENT, start=PERIOD.end - 2 * HOUR, end=PERIOD.end - HOUR)
    assert reasons(one([young], [])) == {Reason.LATE_DATA: -USD}


def test_a_covered_instance_costs_less_by_a_discount() -> None:
    line = replace(LINE, charge=Charge.DISCOUNTED, nano_usd=USD)
    assert reasons(one([SEGMENT], [line])) == {Reason.DISCOUNT: -3 * USD}


def test_a_negotiated_rate_is_a_discount_on_the_list_price() -> None:
    assert reasons(one([SEGMENT], [replace(LINE, nano_usd=3 * USD)])) == {Reason.DISCOUNT: -USD}


def test_another_list_price_than_the_recorded_one_is_unexplained() -> None:
    line = replace(LINE, nano_usd=6 * USD, list_nano_usd=6 * USD)
    assert reasons(one([SEGMENT], [line])) == {Reason.UNEXPLAINED: 2 * USD}


@pytest.mark.parametrize(
    ("billed", "reason"),
    [(5 * USD, Reason.SPOT_PRICE), (40 * USD, Reason.UNEXPLAINED), (0, Reason.UNEXPLAINED)],
)
def test_a_spot_price_may_differ_by_a_plausible_factor(billed: int, reason: Reason) -> None:
    spot = replace(SEGMENT, market=Market.SPOT)
    assert reasons(one([spot], [replace(LINE, nano_usd=billed)])) == {reason: billed - 4 * USD}


def test_a_spot_instance_that_ec2_interrupts_in_its_first_hour_is_free() -> None:
    spot = replace(SEGMENT, market=Market.SPOT, end=SEGMENT.start + HOUR / 2)
    line = replace(LINE, nano_usd=0, microseconds=1_800_000_000)
    assert reasons(one([spot], [line])) == {Reason.INTERRUPTED: -USD // 2}


def test_an_unknown_price_is_reported_as_that() -> None:
    found = one([replace(SEGMENT, usd_per_hour=None)], [LINE])
    assert reasons(found) == {Reason.UNKNOWN_PRICE: 4 * USD}


def test_instances_of_others_are_left_out_and_unknown_ones_of_this_hub_are_not() -> None:
    stranger = replace(LINE, resource_id="i-2")
    assert compared([], [stranger]).instances == []
    [found] = compared([], [replace(stranger, hub="demo")]).instances
    assert reasons(found) == {Reason.UNKNOWN_INSTANCE: 4 * USD}
    assert not found.is_settled
    assert found.instance_type == "g5.xlarge"
    assert compared([], [replace(stranger, hub="another")]).instances == []


def test_volumes_of_the_hub_and_credits_of_the_account_are_listed_apart() -> None:
    volume = replace(
        LINE, resource_id="vol-1", charge=Charge.OTHER_USAGE, usage_type="EBS:gp3", hub="demo"
    )
    credit = replace(LINE, resource_id="", charge=Charge.CREDIT, nano_usd=-USD)
    found = compared([SEGMENT], [LINE, volume, credit])
    assert found.other_resources == {"EBS:gp3": 4 * USD}
    assert found.account_wide == {Charge.CREDIT: -USD}
    assert found.parts == ()


def test_only_the_period_counts() -> None:
    before = replace(SEGMENT, start=DAY - 5 * HOUR, end=DAY - HOUR)
    early = replace(LINE, start=DAY - 5 * HOUR, end=DAY - 4 * HOUR)
    found = one([before, SEGMENT], [early, LINE])
    assert (found.recorded, reasons(found)) == (4 * USD, {})


def test_what_needs_attention_comes_first() -> None:
    other = replace(SEGMENT, instance_id="i-2")
    big = replace(LINE, charge=Charge.CREDIT, nano_usd=-90 * USD, microseconds=0)
    found = compared([SEGMENT, other], [LINE, big])
    assert [each.instance_id for each in found.instances] == ["i-2", "i-1"]


@pytest.mark.parametrize("amount", ["abc", "NaN", "Infinity", "1,5"])
def test_an_amount_that_is_no_number_is_refused(amount: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        nano_of(amount)


def test_amounts_and_hours_are_exact() -> None:
    assert [nano_of(each) for each in ("", "0.5260000000", "-1E-7")] == [0, 526_000_000, -100]
    assert hours_in_microseconds("0.25") == 900_000_000


instants = st.integers(-3600 * 30, 3600 * 24 * 8).map(lambda s: DAY + timedelta(seconds=s))
ids = st.sampled_from(["i-1", "i-2"])
amounts = st.integers(-(10**12), 10**12)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    start = draw(instants)
    lasted = draw(st.none() | st.integers(0, 400_000))
    return Segment(
        draw(ids),
        draw(st.sampled_from(Market)),
        draw(st.none() | st.sampled_from([0.1, 0.526, 32.7726])),
        start,
        None if lasted is None else start + timedelta(seconds=lasted),
    )


@st.composite
def lines(draw: st.DrawFn) -> BillLine:
    start = draw(instants)
    charge = draw(st.sampled_from(Charge))
    is_time = charge in (Charge.INSTANCE, Charge.DISCOUNTED)
    return BillLine(
        draw(ids | st.just("vol-1")),
        start,
        start + HOUR,
        charge,
        draw(amounts),
        draw(st.none() | amounts),
        draw(st.integers(0, 10**11)) if is_time else 0,
        hub=draw(st.sampled_from(["", "demo", "other"])),
    )


@given(st.lists(segments(), max_size=5), st.lists(lines(), max_size=8))
def test_parts_always_add_up_to_the_difference(ours: list[Segment], theirs: list[BillLine]) -> None:
    found = reconcile(ours, theirs, PERIOD, hub="demo", now=NOW)
    for each in found.instances:
        assert sum(part.nano_usd for part in each.parts) == each.billed - each.recorded
        assert all(part.nano_usd for part in each.parts)
        assert each.recorded >= 0
    total = sum(each.billed - each.recorded for each in found.instances)
    assert sum(part.nano_usd for part in found.parts) == total
    assert all(
        each.is_settled == (not {p.reason for p in each.parts} & UNSETTLED)
        for each in found.instances
    )

"""How much of a discount was used, and what one more would have saved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.report.discount_use import discount_use
from ec2spawner.report.wording import discount_sentences
from ec2spawner.wire import Market

START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
END = START + 10 * HOUR
H = 3_600_000_000
USD = 1_000_000_000
G5 = Discount("g5.xlarge", 0.5, 1, source="test")
RUN = Segment(
    "i-1",
    Market.ON_DEMAND,
    1.0,
    START,
    START + 4 * HOUR,
    instance_type="g5.xlarge",
    zone="us-east-1a",
    on_demand_usd_per_hour=1.0,
)
SECOND = replace(RUN, instance_id="i-2", start=START + 2 * HOUR, end=START + 5 * HOUR)


def test_the_second_instance_takes_the_place_that_the_first_has_left() -> None:
    [use] = discount_use([G5], [RUN, SECOND], START, END)
    assert (use.covered, use.used, use.unused) == (10 * H, 5 * H, 5 * H)
    assert (use.paid_nano_usd, use.replaced_nano_usd) == (5 * USD, 5 * USD)
    assert (use.beyond, use.beyond_nano_usd, use.one_more_nano_usd) == (2 * H, 2 * USD, 5 * USD)
    assert use.one_more_saves_nano_usd == -3 * USD


def test_spot_other_types_and_other_zones_use_nothing() -> None:
    others = [
        replace(RUN, market=Market.SPOT),
        replace(RUN, instance_type="g6.xlarge"),
        replace(RUN, zone="us-east-1b"),
    ]
    [use] = discount_use([replace(G5, zone="us-east-1a")], others, START, END)
    assert (use.used, use.beyond) == (0, 0)


def test_an_expired_discount_covers_only_its_time() -> None:
    [use] = discount_use([replace(G5, until=START + 3 * HOUR)], [RUN], START, END)
    assert (use.covered, use.used, use.beyond) == (3 * H, 3 * H, 0)


def test_a_discount_covers_nothing_before_it_begins() -> None:
    bought = replace(G5, since=START + 3 * HOUR)
    [use] = discount_use([bought], [RUN, SECOND], START, END)
    assert (use.covered, use.used, use.unused) == (7 * H, 2 * H, 5 * H)
    assert (use.paid_nano_usd, use.replaced_nano_usd) == (7 * USD // 2, 2 * USD)
    # Both ran for an hour of its time; one more of it would have cost all seven.
    assert (use.beyond, use.beyond_nano_usd, use.one_more_nano_usd) == (H, USD, 7 * USD // 2)
    assert use.one_more_saves_nano_usd == USD - 7 * USD // 2


def test_a_renewed_discount_covers_the_time_without_a_gap() -> None:
    renewal = START + 3 * HOUR
    first, second = replace(G5, until=renewal), replace(G5, usd_per_hour=0.25, since=renewal)
    uses = discount_use([first, second], [RUN], START, END)
    assert [(use.covered, use.used, use.beyond) for use in uses] == [
        (3 * H, 3 * H, 0),
        (7 * H, 1 * H, 0),
    ]


@pytest.mark.parametrize(
    "elsewhen", [{"since": END}, {"until": START}, {"since": END + HOUR, "until": END + 2 * HOUR}]
)
def test_a_discount_of_another_time_covers_nothing(elsewhen: dict) -> None:
    [use] = discount_use([replace(G5, **elsewhen)], [RUN], START, END)
    assert (use.covered, use.used, use.beyond, use.one_more_nano_usd) == (0, 0, 0, 0)


def test_an_open_segment_lasts_until_the_end() -> None:
    [use] = discount_use([G5], [replace(RUN, end=None)], START, END)
    assert use.used == 10 * H


def test_an_unknown_price_makes_the_arithmetic_unknown() -> None:
    unknown = replace(SECOND, usd_per_hour=None, on_demand_usd_per_hour=None)
    [use] = discount_use([G5], [RUN, unknown], START, END)
    assert use.one_more_saves_nano_usd is None


def test_the_sentence_has_the_whole_arithmetic() -> None:
    ends = replace(G5, until=START + timedelta(days=20))
    [(name, said)] = discount_sentences(discount_use([ends], [RUN, SECOND], START, END), END)
    assert name == "1 × g5.xlarge"
    for part in ("10.0 h", "5.0 h used (50 %)", "Expires on 2026-11-21, soon", "3.00 USD lost"):
        assert part in said


def test_the_sentence_says_since_when_and_counts_one_more_from_then() -> None:
    bought = replace(G5, since=START + 4 * HOUR, until=END + HOUR)
    [(_, said)] = discount_sentences(discount_use([bought], [RUN, SECOND], START, END), END)
    for part in (
        "Covered 6.0 h for 3.00 USD: 1.0 h used (17 %)",
        "Began on 2026-11-01.",
        "One more: 0.5 USD/h × 6.0 h = 3.00 USD",
    ):
        assert part in said
    coming = replace(G5, since=END + 24 * HOUR)
    [(_, said)] = discount_sentences(discount_use([coming], [RUN], START, END), END)
    assert said == "Did not hold in this period. Begins on 2026-11-02."


hours = st.integers(-2, 12).map(lambda n: START + n * HOUR)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), hours, st.integers(0, 6)), max_size=6),
    st.integers(0, 3),
    st.none() | hours,
    st.none() | hours,
)
def test_used_and_unused_are_what_was_paid_for(
    runs: list, count: int, since: datetime | None, until: datetime | None
) -> None:
    segments = [
        replace(RUN, instance_id=f"i-{name}{place}", start=start, end=start + lasted * HOUR)
        for place, (name, start, lasted) in enumerate(runs)
    ]
    discount = replace(G5, count=count, since=since, until=until)
    found = discount_use([discount], segments, START, END)
    held = [n for n in range(10) if discount.holds(START + n * HOUR)]
    assert len(found) == min(count, 1)
    for use in found:
        by_hour = [sum(s.start <= START + n * HOUR < s.end for s in segments) for n in held]
        assert use.covered == len(held) * H * count
        assert use.used == sum(min(n, count) for n in by_hour) * H
        assert use.beyond == sum(n > count for n in by_hour) * H
        assert 0 <= use.unused <= use.covered


@pytest.mark.parametrize("count", [1, 2])
def test_equal_discounts_are_one(count: int) -> None:
    found = discount_use([G5] * count, [RUN], START, END)
    assert [use.discount.count for use in found] == [count]

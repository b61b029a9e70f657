"""Which instances discounts cover: the oldest, as many as are paid for, and no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.pricing.discounts import (
    Discount,
    Running,
    beside,
    covered,
    given_to_unused,
    left,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TYPES = ("g5.xlarge", "g4dn.xlarge")
ZONES = ("us-east-1a", "us-east-1b")

discounts = st.lists(
    st.builds(
        Discount,
        instance_type=st.sampled_from(TYPES),
        usd_per_hour=st.sampled_from([0.3, 0.4, 0.5]),
        count=st.integers(min_value=0, max_value=4),
        until=st.none()
        | st.integers(min_value=-3, max_value=3).map(lambda hours: NOW + timedelta(hours=hours)),
        zone=st.sampled_from(("", *ZONES)),
        since=st.none()
        | st.integers(min_value=-3, max_value=3).map(lambda hours: NOW + timedelta(hours=hours)),
    ),
    max_size=5,
)
instances = st.lists(
    st.tuples(
        st.sampled_from(TYPES), st.sampled_from(ZONES), st.integers(min_value=0, max_value=100)
    ),
    max_size=12,
).map(
    lambda rows: [
        Running(f"i-{number}", kind, zone, NOW - timedelta(minutes=age))
        for number, (kind, zone, age) in enumerate(rows)
    ]
)


def running(*minutes_ago: float, zone: str = "us-east-1a") -> list[Running]:
    return [
        Running(f"i-{number}", "g5.xlarge", zone, NOW - timedelta(minutes=minutes))
        for number, minutes in enumerate(minutes_ago)
    ]


def test_the_oldest_instances_get_a_discount_and_keep_it() -> None:
    two = Discount("g5.xlarge", 0.63, count=2)
    assert set(covered([two], running(10, 30, 20), NOW)) == {"i-1", "i-2"}
    assert left([two], running(10, 30, 20), NOW) == ()


def test_left_returns_the_unused_places() -> None:
    four = Discount("g5.xlarge", 0.63, count=4)
    assert [each.count for each in left([four], running(10), NOW)] == [3]
    assert left([four], [], NOW) == (four,)


def test_zonal_places_are_used_first() -> None:
    anywhere = Discount("g5.xlarge", 0.50, count=1)
    here = Discount("g5.xlarge", 0.60, count=1, zone="us-east-1a")
    assert covered([anywhere, here], running(10), NOW) == {"i-0": here}
    assert left([anywhere, here], running(10), NOW) == (anywhere,)
    elsewhere = running(20, zone="us-east-1b")
    assert covered([anywhere, here], elsewhere, NOW) == {"i-0": anywhere}


def test_the_cheaper_of_two_goes_to_the_older_instance() -> None:
    cheap, dear = Discount("g5.xlarge", 0.4, count=1), Discount("g5.xlarge", 0.6, count=1)
    given_out = covered([dear, cheap], running(10, 20), NOW)
    assert (given_out["i-1"], given_out["i-0"]) == (cheap, dear)


def test_an_expired_discount_is_none() -> None:
    ended = Discount("g5.xlarge", 0.63, count=2, until=NOW)
    assert covered([ended], running(10), NOW) == {}
    assert left([ended], [], NOW) == ()
    assert covered([ended], running(10), NOW - timedelta(seconds=1))


def test_a_discount_that_has_not_begun_is_none() -> None:
    coming = Discount("g5.xlarge", 0.63, count=2, since=NOW)
    before = NOW - timedelta(seconds=1)
    assert covered([coming], running(10), before) == {}
    assert left([coming], [], before) == ()
    assert covered([coming], running(10), NOW)


@given(discounts, instances)
def test_no_more_places_are_assigned_than_exist(
    offered: list[Discount], running: list[Running]
) -> None:
    given_out = covered(offered, running, NOW)
    by_id = {each.instance_id: each for each in running}
    for instance_id, discount in given_out.items():
        assert discount.fits(by_id[instance_id].instance_type, by_id[instance_id].zone)
        assert discount.holds(NOW)
    there = sum(discount.count for discount in offered if discount.holds(NOW))
    unused = left(offered, running, NOW)
    assert len(given_out) + sum(each.count for each in unused) == there
    assert all(each.count > 0 for each in unused)


@given(discounts, instances)
def test_no_other_choice_covers_more(offered: list[Discount], running: list[Running]) -> None:
    places: Counter[tuple[str, str]] = Counter()
    for each in offered:
        if each.holds(NOW):
            places[each.instance_type, each.zone] += each.count
    most = 0
    for kind in TYPES:
        wanted = Counter(each.zone for each in running if each.instance_type == kind)
        in_zone = {zone: min(wanted[zone], places[kind, zone]) for zone in ZONES}
        most += sum(in_zone.values())
        most += min(places[kind, ""], sum(wanted[zone] - in_zone[zone] for zone in ZONES))
    assert len(covered(offered, running, NOW)) == most


@given(discounts, instances)
def test_a_newer_instance_changes_no_other_price(
    offered: list[Discount], running: list[Running]
) -> None:
    newer = Running("i-new", "g5.xlarge", "us-east-1a", NOW + timedelta(seconds=1))
    before = covered(offered, running, NOW)
    after = covered(offered, [newer, *running], NOW)
    assert before == {key: value for key, value in after.items() if key != "i-new"}
    fits = [each for each in left(offered, running, NOW) if each.fits("g5.xlarge", "us-east-1a")]
    assert ("i-new" in after) == bool(fits)
    if fits:
        assert after["i-new"].usd_per_hour == fits[0].usd_per_hour


def test_a_reservation_keeps_no_part_shorter_than_the_gap_between_two_days() -> None:
    moment, hour = timedelta(microseconds=1), timedelta(hours=1)
    other = Discount("g5.xlarge", 0.3, 1, since=NOW, until=NOW + hour)
    reservation = Discount("g5.xlarge", 0.5, 1, since=NOW - moment, until=NOW + hour + moment)
    assert beside([other], [reservation]) == []
    longer = replace(reservation, since=NOW - hour, until=NOW + 2 * hour)
    assert [(each.since, each.until) for each in beside([other], [longer])] == [
        (NOW - hour, NOW),
        (NOW + hour, NOW + 2 * hour),
    ]


@given(discounts, discounts)
def test_a_reservation_counts_exactly_while_no_configured_discount_of_its_type_holds(
    configured: list[Discount], reservations: list[Discount]
) -> None:
    configured = [x for x in configured if not (x.since and x.until) or x.since < x.until]
    remaining = beside(configured, reservations)
    for hours in range(-8, 8):
        now = NOW + timedelta(hours=hours / 2 + 0.1)
        replaced = {each.instance_type for each in configured if each.holds(now)}
        expected = Counter(
            (each.instance_type, each.zone, each.usd_per_hour, each.count)
            for each in reservations
            if each.holds(now) and each.instance_type not in replaced
        )
        assert expected == Counter(
            (each.instance_type, each.zone, each.usd_per_hour, each.count)
            for each in remaining
            if each.holds(now)
        )


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(1, 3)), max_size=4),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 4)), max_size=4),
)
def test_no_place_of_a_discount_goes_to_two_reservations(
    agreed: list[tuple[str, int]], unused: list[tuple[str, int]]
) -> None:
    rates = [Discount("t", 0.1 * n, count, zone=z) for n, (z, count) in enumerate(agreed, 1)]
    in_order = left(rates, (), NOW)
    given_out = given_to_unused([("t", zone, number) for zone, number in unused], in_order)
    used = Counter[float]()
    for (_, number), shares in zip(unused, given_out, strict=True):
        assert sum(count for count, _ in shares) <= number
        for count, rate in shares:
            used[rate] += count
    for each in rates:
        assert used[each.usd_per_hour] <= each.count
    free = {each.zone for each in rates if used[each.usd_per_hour] < each.count}
    for (zone, number), shares in zip(unused, given_out, strict=True):
        is_covered = sum(count for count, _ in shares) == number
        assert is_covered or not free & {"", zone}, "what is left fits nobody"

"""Whether there is room for a class: each rule on plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner import data
from ec2spawner.check.facts.network import Subnet
from ec2spawner.config import Profile
from ec2spawner.core.limits.bounds import Bounds
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.core.offers.reserved_capacity import CapacityReservation
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.plan.costs import durations, pool_cost, prices
from ec2spawner.plan.facts import Facts, Source, Wanted
from ec2spawner.plan.reservations import reservations
from ec2spawner.plan.verdicts import (
    State,
    Verdict,
    is_enough,
    launch_calls,
    pool_room,
    verdicts,
)
from ec2spawner.provisioner.store.read_only import FreshStart
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
TYPE = data.instance_types()["g4dn.xlarge"]
LARGER = data.instance_types()["g4dn.2xlarge"]
LARGEST = data.instance_types()["g4dn.4xlarge"]
SPOT = ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 128)
ON_DEMAND = ListedQuota("L-DB2E81BA", "Running On-Demand G and VT instances", 64)
T4 = Profile(display_name="T4, 16 GB", slug="t4", gpu="T4")
A, B = "us-east-1a", "us-east-1b"
FACTS = Facts(
    region="us-east-1",
    subnets=[Subnet("subnet-1", A, "vpc-1", 30), Subnet("subnet-2", B, "vpc-1", 30)],
    types=[TYPE],
    offered={"g4dn.xlarge": frozenset({A, B})},
    quotas=[SPOT, ON_DEMAND],
    running_types={"g4dn.xlarge": TYPE},
    spot={("g4dn.xlarge", A): 0.2, ("g4dn.xlarge", B): 0.3},
    on_demand={"g4dn.xlarge": 0.526},
    resources=ResourcePrices(disk_usd_per_gib_month=0.08, address_usd_per_hour=0.005),
    placement_score=8,
)


def wanted(users: int = 40, **other: Any) -> Wanted:
    return Wanted(**{"profile": T4, "users": users, "hours": 2.0, **other})


def judged(facts: Facts = FACTS, of: Wanted | None = None) -> list[Verdict]:
    of = of or wanted()
    return verdicts(facts, of, prices(facts, of), NOW)


def one(name: str, facts: Facts = FACTS, of: Wanted | None = None) -> Verdict:
    [found] = [each for each in judged(facts, of) if each.name == name]
    return found


def test_a_class_that_fits_is_enough() -> None:
    assert is_enough(judged()) is True


def test_a_free_plan_without_the_types_has_room_for_nobody() -> None:
    found = one("account plan", replace(FACTS, free_plan_has=frozenset({"t3.micro"})))
    assert (found.state, found.enough_for) == (State.SHORT, 0)
    assert "launches only t3.micro" in found.said
    assert "paid plan" in found.fix
    for has in (None, frozenset({"t3.micro", "g4dn.xlarge"})):
        named = {each.name for each in judged(replace(FACTS, free_plan_has=has))}
        assert "account plan" not in named


# --- quotas ---


def test_a_quota_says_its_number_and_what_to_ask_for() -> None:
    only_spot = wanted(profile=T4.model_copy(update={"market": "spot-only"}))
    found = one("spot vCPU quota", of=only_spot)
    assert (found.state, found.enough_for) == (State.SHORT, 32)
    assert "(L-3819A6DF) is 128: room for 32 g4dn.xlarge" in found.said
    assert "ask AWS for 160" in found.fix
    assert "--quota-code L-3819A6DF --desired-value 160" in found.fix


def test_a_profile_that_buys_in_two_markets_may_use_both_quotas() -> None:
    assert one("spot vCPU quota").state is State.OK
    assert one("on-demand vCPU quota", of=wanted(48)).state is State.OK
    assert one("on-demand vCPU quota", of=wanted(49)).state is State.SHORT


def test_a_quota_that_is_not_listed_may_be_what_the_other_lacks() -> None:
    only_spot_listed = replace(FACTS, quotas=[SPOT])
    found = one("spot vCPU quota", only_spot_listed)
    assert (found.state, found.enough_for) == (State.UNKNOWN, 32)
    assert "What the on-demand quota adds is unknown" in found.said
    assert "ask AWS for 160" in found.fix
    assert is_enough(judged(only_spot_listed)) is None
    assert one("spot vCPU quota", only_spot_listed, wanted(32)).state is State.OK


def test_what_this_hub_runs_is_taken_from_the_quota() -> None:
    busy = replace(FACTS, running={(Market.SPOT, "g4dn.xlarge"): 30})
    found = one("spot vCPU quota", busy)
    assert (found.state, found.enough_for) == (State.SHORT, 2)
    assert "of which this hub uses 120" in found.said
    assert "ask AWS for 280" in found.fix
    elsewhere = replace(FACTS, running={(Market.ON_DEMAND, "g4dn.xlarge"): 1})
    assert one("spot vCPU quota", elsewhere).enough_for == 32


def test_quotas_that_cannot_be_read_are_unknown() -> None:
    denied = replace(FACTS, quotas=[], unread={Source.QUOTAS: "AccessDenied"})
    found = one("vCPU quota", denied)
    assert found.state is State.UNKNOWN
    assert "AccessDenied" in found.said
    assert is_enough(judged(denied)) is None
    assert one("spot vCPU quota", replace(FACTS, quotas=[])).state is State.UNKNOWN


# --- zones, addresses, capacity ---


def test_a_profile_that_no_zone_has_is_short() -> None:
    nowhere = replace(FACTS, types=[], offered={})
    found = one("zones", nowhere)
    assert (found.state, found.enough_for) == (State.SHORT, 0)
    assert is_enough(judged(nowhere)) is False


def test_addresses_count_in_zones_that_have_the_type() -> None:
    assert one("free addresses").enough_for == 60
    in_a = replace(FACTS, offered={"g4dn.xlarge": frozenset({A})})
    found = one("free addresses", in_a)
    assert (found.state, found.enough_for) == (State.SHORT, 30)
    assert "larger subnets" in found.fix
    assert one("free addresses", in_a, wanted(30)).state is State.OK


def test_unread_subnets_leave_zones_and_addresses_unknown() -> None:
    reason = {Source.SUBNETS: "InvalidSubnetID.NotFound", Source.TYPES: "unknown zones"}
    blind = replace(FACTS, subnets=[], types=[], offered={}, unread=reason)
    assert one("zones", blind).state is State.UNKNOWN
    assert one("free addresses", blind).state is State.UNKNOWN
    assert is_enough(judged(blind)) is None


@pytest.mark.parametrize(
    ("score", "market", "state"),
    [
        (8, "spot-only", State.OK),
        (3, "spot-only", State.SHORT),
        (3, "spot-first", State.OK),
        (None, "spot-only", State.UNKNOWN),
        (None, "spot-first", State.UNKNOWN),
    ],
)
def test_capacity_is_judged_by_the_score(score: int | None, market: str, state: State) -> None:
    profile = T4.model_copy(update={"market": market})
    facts = replace(FACTS, placement_score=score, types=[TYPE, LARGER, LARGEST])
    assert one("spot capacity", facts, wanted(10, profile=profile)).state is state


def test_a_low_score_of_fewer_than_three_types_says_nothing() -> None:
    spot_only = wanted(10, profile=T4.model_copy(update={"market": "spot-only"}))
    low = replace(FACTS, placement_score=1, types=[TYPE, LARGER])
    found = one("spot capacity", low, spot_only)
    assert found.state is State.UNKNOWN
    assert "always low with fewer than 3 instance types" in found.said
    assert one("spot capacity", replace(low, placement_score=9), spot_only).state is State.OK


def test_nothing_is_said_of_spot_to_a_profile_without_it() -> None:
    on_demand = wanted(10, profile=T4.model_copy(update={"market": "on-demand"}))
    assert "spot" not in " ".join(each.name for each in judged(of=on_demand))


# --- the hub ---


def test_limits_of_the_hub_count_too() -> None:
    limited = replace(FACTS, max_servers=35)
    found = one("servers", limited)
    assert (found.state, found.enough_for) == (State.SHORT, 35)
    assert found.fix == "set it to 40"
    assert one("servers", replace(FACTS, hub_bounds=Bounds(servers=40))).state is State.OK
    rate = replace(FACTS, hub_bounds=Bounds(usd_per_hour=21.04))
    assert one("usd_per_hour", rate).state is State.OK
    assert one("usd_per_hour", rate, wanted(41)).fix == "set it to 22"
    unpriced = replace(rate, spot={}, on_demand={})
    assert one("usd_per_hour", unpriced).state is State.UNKNOWN


def test_launch_calls_are_compared_with_what_ec2_allows() -> None:
    found = launch_calls(FACTS, wanted(100))
    assert found.said.startswith("100 starts at once are one launch call. ")
    assert "EC2 allows an account 50 at once and 5 a second after that" in found.said
    homes = replace(FACTS, homes_in_zones=True)
    assert "each zone with homes, 2 at most" in launch_calls(homes, wanted()).said


@given(st.integers(1, 1000), st.integers(0, 300), st.integers(0, 2000), st.integers(0, 300))
def test_the_verdict_is_short_exactly_where_a_number_is_too_small(
    users: int, addresses: int, vcpus: int, servers: int
) -> None:
    on_demand = T4.model_copy(update={"market": "on-demand"})
    facts = replace(
        FACTS,
        subnets=[Subnet("subnet-1", A, "vpc-1", addresses)],
        quotas=[replace(ON_DEMAND, vcpus=float(vcpus))],
        max_servers=servers,
    )
    found = judged(facts, wanted(users, profile=on_demand))
    for each in found:
        if each.enough_for is not None:
            assert (each.state is State.SHORT) == (each.enough_for < users)
        assert bool(each.fix) or each.state is not State.SHORT
    room = min(addresses, vcpus // 4, servers or users)
    assert is_enough(found) is (room >= users)


# --- costs ---


def test_costs_are_those_of_the_cheapest_zone_and_of_the_most_expensive() -> None:
    spot, on_demand = prices(FACTS, wanted())
    assert (spot.market, spot.zone) == (Market.SPOT, A)
    assert spot.usd(wanted()) == pytest.approx((16.0, 24.0))
    assert on_demand.usd(wanted()) == pytest.approx((42.08, 42.08))


def test_disk_and_address_are_part_of_the_price() -> None:
    subnets = [replace(each, public_addresses=True) for each in FACTS.subnets]
    facts = replace(FACTS, subnets=subnets, disk_gib=100)
    assert prices(facts, wanted())[0].usd_per_hour == pytest.approx(0.2 + 8 / 730 + 0.005)


def test_an_unknown_price_is_no_price() -> None:
    assert [each.market for each in prices(replace(FACTS, spot={}), wanted())] == [Market.ON_DEMAND]
    no_disk_price = replace(FACTS, disk_gib=100, resources=ResourcePrices())
    assert prices(no_disk_price, wanted()) == ()


def start(total: float, until_instance: float) -> FreshStart:
    return FreshStart(NOW, NOW + timedelta(seconds=until_instance), NOW + timedelta(seconds=total))


def test_past_starts_say_how_long_the_next_take() -> None:
    assert durations(FACTS) is None
    few = durations(replace(FACTS, starts=[start(200, 150), start(220, 170)]))
    assert few is not None
    assert (few.number, few.median, few.p95) == (2, 210, None)
    many = [start(100 + number, 80 + number) for number in range(100)]
    usual = durations(replace(FACTS, starts=many))
    assert usual is not None
    assert (usual.median, usual.p95, usual.median_to_instance) == (149.5, 194, 129.5)


def test_the_pool_costs_a_boot_and_a_quarter_of_an_hour() -> None:
    facts = replace(FACTS, starts=[start(200, 180)] * 9)
    found = pool_cost(prices(facts, wanted()), durations(facts), wanted(), 60)
    assert found is not None
    assert found.usd == pytest.approx(40 * 0.2 * (180 + 900) / 3600)
    assert (found.saved_seconds, found.seconds) == (180, 20)
    assert found.usd_per_hour_saved == pytest.approx(found.usd / (40 * 180 / 3600))
    assert (found.instances, found.room_for) == (80, 60)
    assert pool_cost(prices(FACTS, wanted()), None, wanted(), 60) is None
    assert pool_cost((), durations(facts), wanted(), 60) is None


def test_the_pool_has_the_room_of_its_market_and_of_the_subnets() -> None:
    assert pool_room(judged(), wanted()) == 32, "128 vCPUs, and 60 addresses"
    more = replace(FACTS, quotas=[replace(SPOT, vcpus=400.0)])
    assert pool_room(judged(more), wanted()) == 60
    busy = replace(more, running={(Market.SPOT, "g4dn.xlarge"): 90})
    assert pool_room(judged(busy), wanted()) == 10
    unlisted = replace(FACTS, quotas=[ON_DEMAND])
    assert pool_room(judged(unlisted), wanted()) is None
    unread = replace(FACTS, unread={Source.SUBNETS: "InvalidSubnetID.NotFound"})
    assert pool_room(judged(unread), wanted()) is None


# --- capacity bought in advance ---

PLACES = CapacityReservation("cr-1", "g4dn.xlarge", A, total=30, available=25)
RESERVED = replace(FACTS, reserved=[PLACES])


def test_reserved_places_count_for_as_many_users() -> None:
    found = one("reserved capacity", RESERVED)
    assert (found.state, found.enough_for) == (State.OK, 25)
    assert "15 more have to find capacity elsewhere" in found.said
    [more] = reservations(RESERVED, wanted(), NOW)
    assert "--instance-count 15" in more.command
    assert "c.EC2Spawner.capacity_reservations" in more.said


def test_where_all_users_have_a_place_no_other_capacity_is_judged_or_sold() -> None:
    of = wanted(25)
    without_score = replace(RESERVED, placement_score=None)
    assert one("spot capacity", without_score, of).state is State.OK
    assert one("spot capacity", replace(FACTS, placement_score=None), of).state is State.UNKNOWN
    assert not list(reservations(RESERVED, of, NOW))


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACES, instance_type="g5.xlarge"),
        replace(PLACES, zone="us-east-1c"),
        replace(PLACES, ends_at=NOW + timedelta(hours=1)),
        replace(PLACES, available=0),
        replace(PLACES, ends_at=NOW + timedelta(hours=2, minutes=39), is_block=True),
    ],
)
def test_a_reservation_that_the_class_cannot_use_is_no_place(place: CapacityReservation) -> None:
    found = one("reserved capacity", replace(FACTS, reserved=[place]))
    assert (found.state, found.enough_for) == (State.OK, 0)


def test_a_profile_for_spot_only_has_no_place() -> None:
    spot_only = wanted(profile=T4.model_copy(update={"market": "spot-only"}))
    assert one("reserved capacity", RESERVED, spot_only).enough_for == 0


def test_a_reservation_that_lasts_until_the_class_ends_counts() -> None:
    ends_at = NOW + timedelta(hours=2, seconds=1)
    facts = replace(FACTS, reserved=[replace(PLACES, ends_at=ends_at)])
    assert one("reserved capacity", facts).enough_for == 25
    ends_at = NOW + timedelta(hours=2, minutes=41)
    facts = replace(FACTS, reserved=[replace(PLACES, ends_at=ends_at, is_block=True)])
    assert one("reserved capacity", facts).enough_for == 25
    tomorrow = wanted(at=NOW + timedelta(days=1))
    assert one("reserved capacity", facts, tomorrow).enough_for == 0


def test_reservations_that_cannot_be_read_are_unknown() -> None:
    unread = replace(FACTS, unread={Source.RESERVATIONS: "UnauthorizedOperation: no"})
    found = one("reserved capacity", unread)
    assert found.state is State.UNKNOWN
    assert "ec2:DescribeCapacityReservations" in found.fix


def test_without_the_option_nothing_is_said_of_reservations() -> None:
    assert "reserved capacity" not in {each.name for each in judged()}


def test_a_reservation_is_offered_with_its_command_and_price() -> None:
    at = datetime(2026, 11, 25, 9, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    [found] = reservations(FACTS, wanted(at=at), NOW)
    assert "--instance-count 40" in found.command
    assert "--end-date 2026-11-25T10:00:00Z" in found.command
    assert f"--availability-zone {A}" in found.command
    assert found.usd == pytest.approx(42.08)
    assert "plus up to one hour, 21.04 USD" in found.said
    assert f"All of it is in {A}. " in found.said
    [unpriced] = reservations(replace(FACTS, on_demand={}), wanted(), NOW)
    assert unpriced.usd is None
    assert not list(reservations(replace(FACTS, types=[]), wanted(), NOW))


def test_a_reservation_in_one_zone_serves_homes_of_that_zone() -> None:
    [found] = reservations(replace(FACTS, homes_in_zones=True), wanted(), NOW)
    assert f"All of it is in {A}, and only users whose home is there can use it" in found.said


def test_a_reservation_is_only_for_profiles_that_buy_on_demand() -> None:
    spot_only = wanted(profile=T4.model_copy(update={"market": "spot-only"}))
    assert not list(reservations(FACTS, spot_only, NOW))


def test_a_reservation_ends_after_as_many_hours_when_the_clock_changes() -> None:
    # In the night in which Berlin's clock goes from 3:00 back to 2:00.
    at = datetime(2026, 10, 25, 1, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    [found] = reservations(FACTS, wanted(at=at, hours=4.0), NOW)
    assert "--end-date 2026-10-25T03:00:00Z" in found.command


@pytest.mark.parametrize(
    ("hours", "duration"),
    [
        (2, 24),
        (24, 24),
        (24.5, 48),
        (14 * 24, 14 * 24),
        (14 * 24 + 1, 21 * 24),
        (25 * 24, 28 * 24),
        (182 * 24, 182 * 24),
    ],
)
def test_a_capacity_block_lasts_whole_days_and_has_no_price_yet(
    hours: float, duration: int
) -> None:
    p5 = replace(TYPE, name="p5.48xlarge")
    _, block = reservations(replace(FACTS, types=[p5]), wanted(2, hours=hours), NOW)
    assert block.kind == "Capacity Block for ML"
    assert f"--capacity-duration-hours {duration} " in block.command
    assert block.usd is None
    assert "need several" not in block.said
    b200 = replace(TYPE, name="p6-b200.48xlarge")
    assert len(list(reservations(replace(FACTS, types=[b200]), wanted(), NOW))) == 2


@pytest.mark.parametrize(
    ("users", "size"), [(1, 1), (2, 2), (3, 4), (17, 32), (64, 64), (65, 64), (1000, 64)]
)
def test_a_capacity_block_has_a_number_of_instances_that_aws_sells(users: int, size: int) -> None:
    p5 = replace(FACTS, types=[replace(TYPE, name="p5.48xlarge")])
    _, block = reservations(p5, wanted(users), NOW)
    assert f"--instance-count {size} " in block.command
    assert (f"{users} users need several" in block.said) == (users > 64)

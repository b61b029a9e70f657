"""Launches into capacity reservations: what is asked for, how many, and what follows a refusal."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.offers.launch_errors import ErrorClass
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.core.offers.sold_out import MARKED_FOR
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest
from ec2spawner.provisioner.model.leases.lease import Intent, IntentState, LeaseState
from ec2spawner.provisioner.offers import reserved_capacity
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import name_spec, rules
from tests.unit.provisioner.world import SPEC, World, until
from tests.virtual_time import virtual_loop

T4 = "g4dn.xlarge"
A, B = "us-east-1a", "us-east-1b"
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
ID = "cr-0000000a"
OTHER = "cr-0000000b"
TWO = CapacityReservation(ID, T4, A, total=2, available=2)
CHOICE = ReservationChoice(frozenset({ID, OTHER}))


async def with_reservations(
    world: World, *listed: CapacityReservation, choice: ReservationChoice = CHOICE, **settings: Any
) -> None:
    """The hub begins, and has listed them."""
    world.cloud.capacity_reserved = {each.reservation_id: each for each in listed}
    await world.restart(capacity_reservations=choice, **settings)
    await until(lambda: world.provisioner.market.reserved.listed_at, "reservations listed")


def asked(world: World) -> list[tuple[Market, str, int]]:
    """The market, the reservation and the number of each launch call."""
    return [(each.market, each.reservation, each.count) for each in world.cloud.requests()]


def unused(world: World) -> int:
    return world.provisioner.market.reserved.unused(world.clock())[ID]


def reserved(world: World) -> list[str]:
    machines = (world.cloud.machines[each] for each in world.cloud.running())
    return sorted(each.instance.reservation for each in machines)


def open_reservations(world: World) -> set[str]:
    offers = world.provisioner.market.offers.open([T4], [A], Market)
    return {each.reservation for each in offers}


async def test_places_come_before_spot_and_the_rest_follows(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    await asyncio.gather(*(world.request(f"user-{n}") for n in range(3)))
    await world.boot(3)
    assert asked(world) == [(ON_DEMAND, ID, 2), (SPOT, "", 1)]
    assert reserved(world) == ["", ID, ID]
    [request, _] = world.cloud.requests()
    assert request.offers == ((T4, "subnet-a"),), "only its own type and zone"


async def test_places_are_counted_before_a_listing_shows_who_took_them(priced: World) -> None:
    world = priced
    world.cloud.listing_lag = 3600.0
    await with_reservations(world, TWO, listing_lag=7200.0)
    for n in range(3):
        await world.request(f"user-{n}")
        await world.boot(n + 1)
    assert asked(world) == [(ON_DEMAND, ID, 1), (ON_DEMAND, ID, 1), (SPOT, "", 1)]


async def test_a_place_that_is_left_is_taken_again(priced: World) -> None:
    world = priced
    await with_reservations(world, replace(TWO, total=1, available=1))
    world.silence_agents()
    lease, _ = await world.ready("ada")
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert unused(world) == 1
    await world.ready("bob")
    assert asked(world) == [(ON_DEMAND, ID, 1), (ON_DEMAND, ID, 1)]


async def test_after_spot_a_place_comes_before_the_markets_own_capacity(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO, choice=replace(CHOICE, before_spot=False))
    await world.request("ada")
    await world.boot()
    world.cloud.sell_out(SPOT)
    await world.request("bob")
    await world.boot(2)
    assert asked(world) == [(SPOT, "", 1), (SPOT, "", 1), (ON_DEMAND, ID, 1)]


async def test_a_profile_for_spot_only_takes_no_place(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    await world.request("ada", spec=replace(SPEC, markets=(SPOT,)))
    await world.boot()
    assert asked(world) == [(SPOT, "", 1)]


async def test_a_server_that_is_kept_stopped_takes_no_place(priced: World) -> None:
    """EC2 would start it in that reservation only."""
    world = priced
    await with_reservations(world, TWO)
    spec = replace(SPEC, markets=(ON_DEMAND,))
    kept = AfterStop("stop", 86400.0, per_user=1)
    await world.request("ada", spec=spec, after_stop=kept)
    await world.boot()
    await world.request("bob", spec=spec)
    await world.boot(2)
    assert asked(world) == [(ON_DEMAND, "", 1), (ON_DEMAND, ID, 1)]


async def test_those_who_take_places_and_those_who_do_not_are_launched_apart(
    priced: World,
) -> None:
    world = priced
    await with_reservations(world, TWO)
    spec = replace(SPEC, markets=(ON_DEMAND,))
    kept = AfterStop("stop", 86400.0, per_user=1)
    await asyncio.gather(
        world.request("ada", spec=spec, after_stop=kept), world.request("bob", spec=spec)
    )
    await world.boot(2)
    assert sorted(asked(world)) == [(ON_DEMAND, "", 1), (ON_DEMAND, ID, 1)]


async def test_a_home_in_another_zone_takes_no_place(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    await world.request("ada", spec=replace(SPEC, subnets=("subnet-b",)))
    await world.boot()
    assert asked(world) == [(SPOT, "", 1)]


async def test_what_others_have_taken_since_falls_through_to_the_market(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = priced
    await with_reservations(world, TWO)
    world.cloud.capacity_reserved[ID] = replace(TWO, available=1)
    await asyncio.gather(*(world.request(f"user-{n}") for n in range(2)))
    await world.boot(2)
    assert asked(world) == [(ON_DEMAND, ID, 2), (SPOT, "", 1)]
    assert "ReservationCapacityExceeded" in caplog.text
    await world.request("eve")
    await world.boot(3)
    assert asked(world)[2:] == [(SPOT, "", 1)], "it is not asked for again at once"


async def test_a_reservation_that_has_been_cancelled_falls_through(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    world.cloud.capacity_reserved.clear()
    await world.request("ada")
    await world.boot()
    assert asked(world) == [(ON_DEMAND, ID, 1), (SPOT, "", 1)]


async def test_a_reservation_that_the_hub_may_not_use_is_passed_over(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The policy is an old one, or the reservation is another account's."""
    world = priced
    await with_reservations(world, TWO)
    denied = CloudError("UnauthorizedOperation", "not authorized", retryable=False)
    world.cloud.fail("launch", denied)
    await world.request("ada")
    await world.boot()
    await world.request("bob")
    await world.boot(2)
    assert asked(world) == [(ON_DEMAND, ID, 1), (SPOT, "", 1), (SPOT, "", 1)]
    [said] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert ID in said.getMessage()
    assert "configs/iam-policy.json" in said.getMessage()
    assert ID not in open_reservations(world)
    world.clock.advance(MARKED_FOR[ErrorClass.REFUSED].total_seconds())
    assert ID in open_reservations(world)


async def test_what_is_refused_outside_of_the_reservation_too_ends_the_start(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    denied = CloudError("UnauthorizedOperation", "not authorized", retryable=False)
    world.cloud.fail("launch", denied, times=9)
    lease = await world.request("ada")
    await world.state(lease, LeaseState.ENDED)
    assert asked(world) == [(ON_DEMAND, ID, 1), (SPOT, "", 1)]
    stop = world.now(lease).stop
    assert stop is not None
    assert "EC2 refused to start a machine" in stop.message


async def test_the_pool_buys_elsewhere_where_a_reservation_is_refused(priced: World) -> None:
    world = priced
    denied = CloudError("UnauthorizedOperation", "not authorized", retryable=False)
    await with_reservations(world, TWO)
    world.cloud.fail("launch", denied)
    world.provisioner._state.settings = replace(world.settings, pool=rules(1, market=ON_DEMAND))
    name_spec(world)
    await world.boot()
    assert asked(world) == [(ON_DEMAND, ID, 1), (ON_DEMAND, "", 1)]


async def test_a_reservation_whose_end_is_over_is_not_asked_for(priced: World) -> None:
    world = priced
    ends_at = world.clock() + timedelta(hours=1)
    await with_reservations(world, replace(TWO, ends_at=ends_at))
    world.clock.advance(3600)
    await world.request("ada")
    await world.boot()
    assert asked(world) == [(SPOT, "", 1)]


async def test_full_reservations_do_not_use_up_the_calls_of_a_round(priced: World) -> None:
    """Each is asked for with a call of its own."""
    world = priced
    many = [replace(TWO, reservation_id=f"cr-0000000{n}", available=1, total=1) for n in range(6)]
    choice = ReservationChoice(frozenset(each.reservation_id for each in many))
    await with_reservations(world, *many, choice=choice)
    world.cloud.capacity_reserved = {
        name: replace(each, available=0) for name, each in world.cloud.capacity_reserved.items()
    }
    world.cloud.sell_out(SPOT)
    await world.request("ada")
    await world.boot()
    assert [each[1] for each in asked(world)] == [*choice_ids(many), "", ""]
    assert reserved(world) == [""]


def choice_ids(reservations: list[CapacityReservation]) -> list[str]:
    return [each.reservation_id for each in reservations]


async def test_concurrent_launches_do_not_share_the_last_place(priced: World) -> None:
    world = priced
    await with_reservations(world, replace(TWO, total=1, available=1))
    gate = world.cloud.hold("launch")
    await world.request("ada")
    await until(lambda: world.cloud.requests(), "the first call")
    await world.request("bob", spec=replace(SPEC, disk_gib=1))
    await until(lambda: len(world.cloud.requests()) == 2, "the second call")
    gate.set()
    await world.boot(2)
    assert asked(world) == [(ON_DEMAND, ID, 1), (SPOT, "", 1)]


async def test_reservations_are_chosen_by_id_or_by_all_tags(priced: World) -> None:
    world = priced
    tagged = {
        name: CapacityReservation(name, T4, A, 1, 1, tags=tags)
        for name, tags in {
            "cr-00000001": {"course": "ml", "owner": "x"},
            "cr-00000002": {"course": "ml"},
            "cr-00000003": {},
        }.items()
    }
    choice = ReservationChoice(frozenset({"cr-00000003"}), {"course": "ml", "owner": "x"})
    await with_reservations(world, *tagged.values(), choice=choice)
    found = world.provisioner.market.reserved.active(world.clock())
    assert [each.reservation_id for each in found] == ["cr-00000001", "cr-00000003"]


async def test_without_a_choice_nothing_is_listed(priced: World) -> None:
    world = priced
    world.cloud.capacity_reserved = {ID: TWO}
    await world.request("ada")
    await world.boot()
    assert asked(world) == [(SPOT, "", 1)]
    assert not world.cloud.of("capacity_reservations")


async def test_a_failed_listing_keeps_what_was_listed(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = priced
    await with_reservations(world, TWO)
    denied = CloudError("UnauthorizedOperation", "no", retryable=False)
    world.cloud.fail("capacity_reservations", denied, times=3)
    await until(lambda: "works again" in caplog.text or "failed" in caplog.text, "a failure")
    assert unused(world) == 2
    with caplog.at_level(logging.INFO):
        before = len(world.cloud.of("capacity_reservations"))
        await until(lambda: len(world.cloud.of("capacity_reservations")) > before + 3, "listings")
    warnings = [each for each in caplog.records if "reservations failed" in each.getMessage()]
    assert len(warnings) == 1, "repeated failures are logged once"


async def test_a_failed_listing_is_repeated_soon(priced: World) -> None:
    world = priced
    busy = CloudError("RequestLimitExceeded", "busy", retryable=True)
    world.cloud.fail("capacity_reservations", busy, times=3)
    began = virtual_loop().time()
    await with_reservations(world, TWO)
    assert unused(world) == 2
    assert virtual_loop().time() - began < reserved_capacity.INTERVAL


async def test_an_old_listing_offers_nothing(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    world.clock.advance(reserved_capacity.TRUSTED_FOR)
    assert ID in open_reservations(world)
    world.clock.advance(1)
    assert ID not in open_reservations(world)
    await world.provisioner.market.reserved.refresh()
    assert ID in open_reservations(world)


async def test_a_listing_during_a_launch_into_a_reservation_is_not_used(priced: World) -> None:
    """It may or may not show the new instance."""
    world = priced
    await with_reservations(world, TWO)
    reserved = world.provisioner.market.reserved
    answered = world.cloud.hold("capacity_reservations", after=True)
    listing = asyncio.create_task(reserved.refresh())
    await until(lambda: len(world.cloud.of("capacity_reservations")) == 2, "listing")
    await world.request("ada")
    await world.boot()
    await until(lambda: unused(world) == 1, "counted")
    answered.set()
    assert not await listing
    assert unused(world) == 1
    launched = world.cloud.hold("launch", after=True)
    await world.request("bob")
    await world.boot(2)
    assert not await reserved.refresh()
    launched.set()
    await until(lambda: unused(world) == 0, "counted")
    await until(lambda: not world.provisioner._state.launches.in_progress, "launched")
    assert await reserved.refresh()
    assert unused(world) == 0


async def test_an_id_that_is_not_there_is_logged_once(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = priced
    await with_reservations(world, TWO)
    await until(lambda: len(world.cloud.of("capacity_reservations")) > 3, "listings")
    said = [each.getMessage() for each in caplog.records if OTHER in each.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("c.EC2Spawner.capacity_reservations: ")
    assert ID not in said[0]


async def test_a_call_into_a_reservation_is_replayed_as_it_was(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    world.cloud.hold("launch", after=True)  # it has taken effect; its answer never comes
    await world.request("ada")
    await until(lambda: world.cloud.running(), "launched")
    await world.restart()
    await until(lambda: len(world.cloud.requests()) == 2, "replayed")
    first, second = world.cloud.requests()
    assert first == second
    assert second.reservation == ID
    await world.settle()
    assert len(world.cloud.running()) == 1


async def test_a_stored_call_of_an_earlier_version_has_no_reservation(priced: World) -> None:
    world = priced
    request = LaunchRequest("token", SPOT, 1, SPEC, {}, ((T4, "subnet-a"),))
    intent = Intent(request, "key", IntentState.OPEN, world.clock())
    await world.store.save_intent(intent)
    await world.kill()
    world.run_sql("UPDATE intent SET request = json_remove(request, '$.reservation')")
    await world.start()
    await until(lambda: world.cloud.requests(), "replayed")
    assert world.cloud.requests() == [request]


async def test_an_instance_in_a_reservation_costs_the_on_demand_price(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO)
    lease, _ = await world.ready("ada")
    [segment] = world.now(lease).segments
    assert segment.market is ON_DEMAND
    assert segment.usd_per_hour == 0.526
    [offer] = [each for each in world.provisioner.market.offers.all([T4], [A], Market) if each.paid]
    assert (offer.reservation, offer.usd_per_hour) == (ID, 0.526)


async def test_a_discount_covers_an_instance_in_a_reservation(priced: World) -> None:
    world = priced
    await with_reservations(world, TWO, discounts=(Discount(T4, 0.3, 1),))
    lease, _ = await world.ready("ada")
    [segment] = world.now(lease).segments
    assert segment.usd_per_hour == 0.3
    assert asked(world) == [(ON_DEMAND, ID, 1)]

"""Which launch calls a start makes, what they teach, and what its user sees of them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.ledger.cost_rows import CostRow
from ec2spawner.core.offers.launch_errors import ErrorClass, LaunchError
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.tags import HUB
from ec2spawner.provisioner.instances.inventory import take_stock
from ec2spawner.provisioner.launch import controller
from ec2spawner.provisioner.launch.launch_failure import launch_failure
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest
from ec2spawner.provisioner.model.leases.lease import (
    Attempt,
    AttemptOutcome,
    Intent,
    IntentState,
    Lease,
    LeaseState,
)
from ec2spawner.provisioner.offers.offers import Offers, Order
from ec2spawner.provisioner.state.instances.launches import Round
from ec2spawner.provisioner.state.instances.stock import Stock
from ec2spawner.provisioner.state.state import State
from ec2spawner.wire import Market, Step, Stop
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until
from tests.virtual_time import virtual_loop

T4, A10G = "g4dn.xlarge", "g5.xlarge"
A, B = "us-east-1a", "us-east-1b"
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
SIX = {f"subnet-{letter}": f"us-east-1{letter}" for letter in "abcdef"}
THROTTLED = CloudError("RequestLimitExceeded", "slow down", retryable=True)

OFFER_CODES = ["InsufficientInstanceCapacity", "UnfulfillableCapacity", "InsufficientHostCapacity"]
QUOTA_CODES = ["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded"]
REFUSED_CODES = {
    "UnauthorizedOperation": "iam-policy.json",
    "InvalidAMIID.NotFound": "c.EC2Spawner.image",
    "InvalidSubnetID.NotFound": "c.EC2Spawner.subnets",
    "InvalidParameterValue": "ec2spawner check",
    "IdempotentParameterMismatch": "this hub's store",
}


def asked(world: World) -> list[tuple[Market, set[str]]]:
    """The market and the zones of every launch call."""
    return [(r.market, zones_of(world, r)) for r in world.cloud.requests()]


def zones_of(world: World, request: LaunchRequest) -> set[str]:
    return {world.cloud.subnets[subnet] for _, subnet in request.offers}


async def found(world: World, lease: Lease) -> Attempt:
    """The attempt that brought a machine."""
    await until(
        lambda: (
            world.now(lease).attempts
            and world.now(lease).attempts[-1].outcome is AttemptOutcome.FOUND
        ),
        "found",
    )
    return world.now(lease).attempts[-1]


async def six_zones(world: World) -> None:
    world.cloud.subnets = SIX
    await world.restart(subnets=tuple(SIX))


async def prices(world: World, **usd: float) -> None:
    """Spot prices of the T4 by the letter of the zone."""
    world.cloud.prices = {(T4, f"us-east-1{letter}"): price for letter, price in usd.items()}
    await world.provisioner.market.prices.refresh()


# --- sold out --------------------------------------------------------------------------------


async def test_spot_sold_out_everywhere_is_an_on_demand_server_after_two_calls(
    world: World,
) -> None:
    await six_zones(world)
    world.cloud.sell_out(SPOT)
    lease = await world.request()
    await found(world, lease)
    zones = set(SIX.values())
    assert asked(world) == [(SPOT, zones), (ON_DEMAND, zones)]

    spot, on_demand = world.now(lease).attempts
    assert (spot.market, spot.outcome) == (SPOT, AttemptOutcome.SOLD_OUT)
    assert spot.answer == "in us-east-1a, b, c, d, e and f"
    assert (on_demand.market, on_demand.answer) == (ON_DEMAND, f"{T4} in {A}")
    assert on_demand.usd_per_hour == 0.526
    assert on_demand.skipped == "", "what this start has just learned is no news"
    [boot] = [event for event in world.now(lease).events if event.step is Step.BOOT]
    assert boot.message == f"Found one: {T4}, on-demand, {A}, $0.53/h"


async def test_spot_in_one_zone_of_six_is_found_by_the_first_call(world: World) -> None:
    await six_zones(world)
    world.cloud.sell_out(SPOT)
    del world.cloud.capacity[SPOT, T4, "us-east-1e"]
    lease = await world.request("first")
    assert (await found(world, lease)).answer == f"{T4} in us-east-1e"
    assert [market for market, _ in asked(world)] == [SPOT]

    second = await world.request("second")
    attempt = await found(world, second)
    assert "us-east-1e" in asked(world)[-1][1]
    refused = {"us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"}
    assert asked(world)[-1][1].isdisjoint(refused), "known to be sold out"
    assert attempt.skipped == (f"spot {T4} in us-east-1a, b, c and d (sold out, seen at 12:00 UTC)")


async def test_a_second_start_requests_nothing_known_to_be_sold_out(world: World) -> None:
    world.cloud.sell_out(SPOT)
    world.cloud.sell_out(ON_DEMAND)
    stop = await world.stop_of(await world.request("first"))
    assert stop == Stop(
        reason="capacity",
        message="EC2 has no machine of this kind available right now: spot and on-demand are sold "
        "out in us-east-1a and b. Try again after 12:03 UTC.",
    )
    assert len(asked(world)) == 2

    world.clock.advance(100)
    second = await world.stop_of(await world.request("second"))
    assert second == stop
    assert len(asked(world)) == 2, "no call"

    world.clock.advance(80)
    await world.stop_of(await world.request("third"))
    assert [market for market, _ in asked(world)] == [SPOT, ON_DEMAND] * 2, "three minutes later"


async def test_spot_known_to_be_sold_out_is_skipped(world: World) -> None:
    world.cloud.sell_out(SPOT)
    await found(world, await world.request("first"))
    attempt = await found(world, await world.request("second"))
    assert [market for market, _ in asked(world)] == [SPOT, ON_DEMAND, ON_DEMAND]
    assert attempt.skipped == f"spot {T4} in us-east-1a and b (sold out, seen at 12:00 UTC)"


async def test_a_response_may_have_instances_and_errors(world: World) -> None:
    world.cloud.capacity[SPOT, T4, A] = 0
    world.cloud.capacity[SPOT, T4, B] = 1
    async with world.no_pass:
        first, second = await asyncio.gather(world.request("first"), world.request("second"))
    await world.boot(2)
    await world.settle()
    spot, on_demand = world.cloud.requests()
    assert (spot.count, on_demand.count) == (2, 1)
    assert [x.outcome for x in world.now(first).attempts] == [AttemptOutcome.FOUND]
    assert [x.outcome for x in world.now(second).attempts] == [
        AttemptOutcome.SOLD_OUT,
        AttemptOutcome.FOUND,
    ]
    marks = world.provisioner.market.offers.sold_out.all(world.clock())
    assert {(scope.market, scope.zone) for scope, _ in marks} == {(SPOT, A), (SPOT, B)}


async def test_a_type_without_any_zone_is_reported_without_a_call(world: World) -> None:
    world.cloud.not_offered = {(T4, A), (T4, B)}
    await world.provisioner.market.catalogue.refresh()
    stop = await world.stop_of(await world.request())
    assert stop.reason == "capacity"
    assert "no zone of this hub has a type that fits" in stop.message
    assert asked(world) == []


async def test_a_zone_without_the_type_is_not_requested(world: World) -> None:
    world.cloud.not_offered = {(T4, A)}
    await world.provisioner.market.catalogue.refresh()
    await found(world, await world.request())
    assert asked(world) == [(SPOT, {B})]


# --- each error code -------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*OFFER_CODES, "SpotMaxPriceTooLow"])
async def test_a_sold_out_offer_is_not_requested_for_three_minutes(world: World, code: str) -> None:
    world.cloud.refuse(code, SPOT, zone=A)
    await prices(world, a=0.1, b=0.2)
    assert (await found(world, await world.request("first"))).answer.endswith(B)
    for seconds, zones in ((0, {B}), (179, {B}), (2, {A, B})):
        await world.watch_passes(1)  # a listing shows the last instance before time passes
        world.clock.advance(seconds)
        await found(world, await world.request(f"after {seconds}"))
        assert asked(world)[-1] == (SPOT, zones)


@pytest.mark.parametrize("code", OFFER_CODES)
async def test_a_sold_out_call_marks_all_its_offers(world: World, code: str) -> None:
    world.cloud.fail("launch", CloudError(code, "There is none.", retryable=False))
    attempt = await found(world, await world.request("first"))
    assert attempt.market is ON_DEMAND
    await found(world, await world.request("second"))
    assert [market for market, _ in asked(world)] == [SPOT, ON_DEMAND, ON_DEMAND]


async def test_a_type_that_a_zone_lacks_is_not_requested_there_for_a_day(
    world: World,
) -> None:
    world.cloud.refuse("Unsupported", zone=A)
    await prices(world, a=0.1, b=0.2)
    await found(world, await world.request("first"))
    await world.watch_passes(1)  # a listing shows the first one before time passes
    world.clock.advance(timedelta(hours=23, minutes=59).total_seconds())
    await found(world, await world.request("second"))
    assert asked(world)[-1] == (SPOT, {B})
    world.cloud.sell_out(SPOT)
    await found(world, await world.request("third"))
    assert asked(world)[-1] == (ON_DEMAND, {B}), "in no market"
    world.clock.advance(61)
    world.cloud.capacity.clear()
    world.cloud.errors.clear()
    await found(world, await world.request("fourth"))
    assert A in asked(world)[-1][1]


@pytest.mark.parametrize("code", QUOTA_CODES)
@pytest.mark.parametrize("whole", [False, True], ids=["entry", "call"])
async def test_a_quota_closes_its_market_to_all_types_of_its_class(
    world: World, code: str, whole: bool
) -> None:
    if whole:
        world.cloud.fail("launch", CloudError(code, "You have requested more.", retryable=False))
    else:
        world.cloud.refuse(code, SPOT)
    first = await world.request("first")
    await found(world, first)
    assert world.now(first).attempts[0].outcome is AttemptOutcome.QUOTA
    await found(world, await world.request("second", spec=replace(SPEC, instance_types=(A10G,))))
    assert [market for market, _ in asked(world)] == [SPOT, ON_DEMAND, ON_DEMAND]
    world.cloud.errors.clear()
    await found(world, await world.request("cpu", spec=replace(SPEC, instance_types=("m5.large",))))
    assert asked(world)[-1][0] is SPOT, "another quota"
    world.clock.advance(181)
    await found(world, await world.request("third"))
    assert asked(world)[-1][0] is SPOT


async def test_a_quota_in_every_market_is_the_named_reason(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cloud.refuse("MaxSpotInstanceCountExceeded", SPOT)
    world.cloud.refuse("VcpuLimitExceeded", ON_DEMAND)
    stop = await world.stop_of(await world.request())
    assert stop.reason == "quota"
    assert "“All G and VT Spot Instance Requests” is used up" in stop.message
    assert "“Running On-Demand G and VT instances” is used up" in stop.message
    assert "Choose another profile, or ask an admin" in stop.message
    assert "An admin can ask AWS for a larger quota" in stop.message
    assert {"L-3819A6DF", "L-DB2E81BA"} <= {*caplog.text.replace(")", " ").split()}
    assert "12:03 UTC" in stop.message


async def test_another_subnet_of_the_zone_replaces_a_full_one(world: World) -> None:
    world.cloud.subnets = {"subnet-a": A, "subnet-a2": A, "subnet-b": B}
    await world.restart(subnets=("subnet-a", "subnet-a2", "subnet-b"))
    await prices(world, a=0.1, b=0.2)
    full = LaunchError("InsufficientFreeAddressesInSubnet", "full", T4)
    world.cloud.errors[SPOT, T4, A] = full
    await found(world, await world.request("first"))
    world.cloud.errors.clear()
    await found(world, await world.request("second"))
    first, second = ({subnet for _, subnet in r.offers} for r in world.cloud.requests())
    assert first == {"subnet-a", "subnet-b"}
    assert second == {"subnet-a2", "subnet-b"}
    world.clock.advance(181)
    await found(world, await world.request("third"))
    assert world.cloud.requests()[-1].offers[0] == (T4, "subnet-a")


async def test_the_other_subnet_of_a_zone_is_tried_in_the_same_start(world: World) -> None:
    world.cloud.subnets = {"subnet-a": A, "subnet-a2": A}
    await world.restart(subnets=("subnet-a", "subnet-a2"))
    world.cloud.refuse_offers("InsufficientFreeAddressesInSubnet")
    assert (await found(world, await world.request())).market is SPOT
    assert [request.offers for request in world.cloud.requests()] == [
        ((T4, "subnet-a"),),
        ((T4, "subnet-a2"),),
    ]


async def test_a_zone_whose_only_subnet_is_full_is_skipped_with_a_reason(world: World) -> None:
    world.cloud.refuse("InsufficientFreeAddressesInSubnet", SPOT, zone=A)
    await prices(world, a=0.1, b=0.2)
    await found(world, await world.request("first"))
    attempt = await found(world, await world.request("second"))
    assert asked(world)[-1] == (SPOT, {B})
    assert "without a free network address, seen at 12:00 UTC" in attempt.skipped


@pytest.mark.parametrize(("code", "fix"), REFUSED_CODES.items())
@pytest.mark.parametrize("whole", [False, True], ids=["entry", "call"])
async def test_a_refusal_fails_at_once_with_its_fix_and_marks_nothing(
    world: World, code: str, fix: str, whole: bool
) -> None:
    if whole:
        world.cloud.fail("launch", CloudError(code, "It is not so.", retryable=False))
    else:
        world.cloud.refuse(code, message="It is not so.")
    lease = await world.request("first")
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert f"{code}: It is not so." in stop.message
    assert fix in stop.message
    assert len(asked(world)) == 1, "no other market would help"
    assert world.now(lease).attempts[-1].outcome is AttemptOutcome.REFUSED
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()
    world.cloud.errors.clear()
    await found(world, await world.request("second"))
    assert asked(world)[-1] == (SPOT, {A, B})


async def test_a_missing_image_is_read_again(world: World) -> None:
    await world.provisioner.market.images.current()
    world.cloud.refuse_offers("InvalidAMIID.NotFound")
    await world.stop_of(await world.request())
    await world.provisioner.market.images.current()
    assert len(world.cloud.of("find_image")) == 2


async def test_a_start_continues_after_a_response_with_refused_and_sold_out(world: World) -> None:
    world.cloud.refuse_offers("InvalidParameterValue", "InsufficientInstanceCapacity")
    assert (await found(world, await world.request())).market is ON_DEMAND


NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"


async def test_an_account_without_the_spot_role_buys_on_demand_and_warns_its_admin(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cloud.refuse(NO_SPOT_ROLE, SPOT)
    assert (await found(world, await world.request("first"))).market is ON_DEMAND
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("create-service-linked-role" in line for line in said)
    await found(world, await world.request("second"))
    asked_for = [request.market for request in world.cloud.requests()]
    assert asked_for == [SPOT, ON_DEMAND, ON_DEMAND], "spot is not asked for again for a while"


async def test_a_start_for_spot_only_says_that_the_account_lacks_the_role(world: World) -> None:
    world.cloud.refuse(NO_SPOT_ROLE, SPOT)
    spot_only = replace(SPEC, markets=(SPOT,))
    stop = await world.stop_of(await world.request(spec=spot_only))
    assert "spot is not permitted in this account" in stop.message
    assert "tell an admin" in stop.message
    assert "create-service-linked-role" in stop.message


async def test_a_refusal_that_ec2_sums_up_as_capacity_is_a_refusal(world: World) -> None:
    """As it answers to an instance profile that does not exist."""
    no_such_profile = LaunchError(
        "InvalidParameterValue",
        "Value (gone) for parameter iamInstanceProfile.name is invalid.\n"
        "Invalid IAM Instance Profile name",
        T4,
        "subnet-a",
        A,
    )
    summary = LaunchError(
        "UnfulfillableCapacity",
        "Unable to fulfill capacity due to your request configuration. Please adjust your request "
        "and try again.",
    )
    world.cloud.refuse_with(no_such_profile, summary)
    lease = await world.request("first")
    stop = await world.stop_of(lease)
    assert stop == Stop(
        reason="failed",
        message="EC2 refused to start a machine; please tell an admin: "
        "c.EC2Spawner.instance_profile must name one of this account (InvalidParameterValue: "
        "Value (gone) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance "
        "Profile name)",
    )
    [attempt] = world.now(lease).attempts
    assert attempt.outcome is AttemptOutcome.REFUSED
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()
    await found(world, await world.request("second"))
    assert asked(world) == [(SPOT, {A, B})] * 2, "the next start asks for all of it"


async def test_a_throttle_that_ec2_sums_up_as_capacity_is_a_throttle(world: World) -> None:
    world.cloud.refuse_offers("RequestLimitExceeded", "UnfulfillableCapacity")
    lease = await world.request()
    assert (await found(world, lease)).market is SPOT
    assert asked(world) == [(SPOT, {A, B})] * 2
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()


async def test_capacity_errors_by_name_beside_a_refusal_mark_sold_out(world: World) -> None:
    world.cloud.refuse_with(
        LaunchError("InvalidParameterValue", "no", T4, "subnet-a", A),
        LaunchError("UnfulfillableCapacity", "no", T4, "subnet-b", B),
    )
    assert (await found(world, await world.request())).market is ON_DEMAND
    [(scope, _)] = world.provisioner.market.offers.sold_out.all(world.clock())
    assert (scope.market, scope.zone) == (SPOT, B)


async def test_partial_refusals_are_not_reported_as_sold_out(world: World) -> None:
    world.cloud.refuse("InvalidParameterValue", SPOT, zone=A)
    world.cloud.sell_out(SPOT)
    world.cloud.sell_out(ON_DEMAND)
    stop = await world.stop_of(await world.request())
    assert stop.message == (
        "EC2 has no machine of this kind available right now: on-demand is sold out in us-east-1a "
        "and b; spot is sold out in us-east-1b. EC2 refused part of the request; please "
        "tell an admin: `ec2spawner check` shows what is wrong. Try again after 12:03 UTC."
    )


# --- busy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "RequestLimitExceeded",
        "Throttling",
        "InternalError",
        "InvalidLaunchTemplateName.NotFoundException",
    ],
)
async def test_a_busy_response_is_retried_with_another_token(world: World, code: str) -> None:
    """EC2 would give its answer to the old token again."""
    world.cloud.refuse_offers(code, times=3)
    lease = await world.request()
    attempt = await found(world, lease)
    assert world.now(lease).attempts == (attempt,), "one attempt, however often it is repeated"
    requests = world.cloud.requests()
    assert len({request.client_token for request in requests}) == 4
    assert {(request.market, request.offers) for request in requests} == {
        (SPOT, requests[0].offers)
    }
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()


async def test_a_busy_ec2_is_shown_while_it_lasts(world: World) -> None:
    world.cloud.fail("launch", THROTTLED)
    gate = world.cloud.hold("launch")
    lease = await world.request()
    await until(lambda: len(world.cloud.requests()) == 2)
    [attempt] = world.now(lease).attempts
    assert (attempt.outcome, attempt.answer) == (AttemptOutcome.BUSY, "(RequestLimitExceeded)")
    gate.set()
    await found(world, lease)


async def test_busy_until_the_timeout_fails_without_sold_out_marks(
    world: World,
) -> None:
    world.cloud.refuse_offers("RequestLimitExceeded", times=10_000)
    stop = await world.stop_of(await world.request())
    assert stop.reason == "failed"
    assert "please try again" in stop.message
    assert {market for market, _ in asked(world)} == {SPOT}, "no other market is less busy"


async def test_an_unknown_server_error_is_no_refusal(world: World) -> None:
    world.cloud.fail("launch", CloudError("Strange", "HTTP 503", retryable=True), times=10_000)
    stop = await world.stop_of(await world.request())
    assert "EC2 is busy" in stop.message
    assert "Strange: HTTP 503" in stop.message


async def test_a_busy_ec2_is_retried_with_pauses_whatever_its_status(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda _, longest: longest)
    await world.restart(launch_timeout=TIMEOUT)
    busy = CloudError("RequestTimeout", "HTTP 400", retryable=False)
    world.cloud.fail("launch", busy, times=3)
    began = virtual_loop().time()
    await world.request()
    await world.boot()
    assert virtual_loop().time() - began >= 1 + 2 + 4
    assert len(asked(world)) == 4


async def test_a_busy_offer_is_retried_before_a_dearer_one(
    world: World,
) -> None:
    await prices(world, a=0.1, b=0.2)
    world.cloud.refuse("RequestLimitExceeded", SPOT, zone=A)
    world.cloud.sell_out(SPOT)
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    await until(world.cloud.requests)
    world.cloud.errors.clear()
    world.cloud.capacity.clear()
    gate.set()
    assert (await found(world, lease)).answer == f"{T4} in {A}"
    assert asked(world) == [(SPOT, {A, B}), (SPOT, {A})]


async def test_a_throttled_call_makes_the_others_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds for three kinds of machines: while one has to wait, none of the others calls."""
    monkeypatch.setattr(random, "uniform", lambda _, longest: longest)
    await world.restart(launch_pause=30.0, launch_timeout=TIMEOUT)
    world.cloud.fail("launch", THROTTLED)
    specs = [replace(SPEC, image_id=f"ami-{number}") for number in range(3)]
    first = await world.request("first", spec=specs[0])
    await until(lambda: world.now(first).attempts and world.now(first).attempts[0].answer)
    leases = [await world.request(each.image_id, spec=each) for each in specs[1:]]
    await world.watch_passes(1)
    assert len(world.cloud.requests()) == 1
    for lease in [first, *leases]:
        await found(world, lease)
    assert len(world.cloud.requests()) == 4


# --- the order of markets --------------------------------------------------------------------


async def test_spot_dearer_than_on_demand_comes_last(world: World) -> None:
    await prices(world, a=0.2, b=0.3)
    await found(world, await world.request("cheap"))
    await prices(world, a=0.9, b=0.8)
    await found(world, await world.request("dear"))
    world.cloud.sell_out(ON_DEMAND)
    last = await world.request("last")
    assert (await found(world, last)).market is SPOT
    markets = [market for market, _ in asked(world)]
    assert markets == [SPOT, ON_DEMAND, ON_DEMAND, SPOT]


async def test_only_the_markets_of_the_profile_are_requested(world: World) -> None:
    world.cloud.sell_out(SPOT)
    only = replace(SPEC, markets=(SPOT,))
    stop = await world.stop_of(await world.request(spec=only))
    assert "spot is sold out" in stop.message
    assert "on-demand" not in stop.message
    assert [market for market, _ in asked(world)] == [SPOT]


async def test_a_pending_launch_carries_its_remaining_markets(world: World) -> None:
    """A lease that may only be on-demand counts on it, once spot is out of the question."""
    world.cloud.sell_out(SPOT)
    first_call, second_call = world.cloud.hold("launch"), world.cloud.hold("launch")
    await world.request("first")
    await until(lambda: len(world.cloud.requests()) == 1)
    [round_] = world.provisioner._state.launches.in_progress
    assert round_.markets == {SPOT, ON_DEMAND}
    first_call.set()
    await until(lambda: len(world.cloud.requests()) == 2)
    assert round_.markets == {ON_DEMAND}
    second_call.set()
    await world.boot()


async def test_prices_of_a_newly_found_type_are_read(world: World) -> None:
    world.cloud.prices = {("p3.2xlarge", A): 0.9}
    await world.request(spec=replace(SPEC, instance_types=("p3.2xlarge",)))
    await until(lambda: world.provisioner.market.prices.price(SPOT, "p3.2xlarge", A))


# --- what is paid for ------------------------------------------------------------------------


async def test_discounted_places_come_first_up_to_their_number(world: World) -> None:
    await world.restart(discounts=(Discount(T4, 0.3, 2),))
    await prices(world, a=0.1, b=0.2)
    async with world.no_pass:
        leases = await asyncio.gather(*(world.request(f"user-{n}") for n in range(5)))
    await world.boot(5)
    await world.settle()
    calls = [(r.market, r.count) for r in world.cloud.requests()]
    assert calls == [(ON_DEMAND, 2), (SPOT, 3)]
    assert [world.now(lease).attempts[-1].usd_per_hour for lease in leases] == [
        0.3,
        0.3,
        0.1,
        0.1,
        0.1,
    ]
    assert all(len(world.now(lease).attempts) == 1 for lease in leases)
    await world.request("sixth")
    await world.boot(6)
    assert asked(world)[-1][0] is SPOT, "all places are taken"


async def test_further_instances_are_bought_at_the_ordinary_price(world: World) -> None:
    await world.restart(discounts=(Discount(T4, 0.3, 1),))
    world.cloud.sell_out(SPOT)
    async with world.no_pass:
        await asyncio.gather(world.request("first"), world.request("second"))
    await world.boot(2)
    await world.settle()
    calls = [(r.market, r.count) for r in world.cloud.requests()]
    assert calls == [(ON_DEMAND, 1), (SPOT, 1), (ON_DEMAND, 1)]


async def test_concurrent_launches_do_not_share_the_last_discounted_place(world: World) -> None:
    await world.restart(discounts=(Discount(T4, 0.3, 1),))
    await prices(world, a=0.1, b=0.2)
    gate = world.cloud.hold("launch")
    await world.request("first")
    await until(world.cloud.requests)
    await world.request("second", spec=replace(SPEC, image_id="ami-2"))
    await until(lambda: len(world.cloud.requests()) == 2)
    gate.set()
    await world.boot(2)
    assert [market for market, _ in asked(world)] == [ON_DEMAND, SPOT]


async def test_a_used_discounted_place_is_not_counted_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once as an instance, and once more by the call whose answer is being stored."""
    await world.restart(discounts=(Discount(T4, 0.3, 2),))
    await prices(world, a=0.1, b=0.2)
    save, storing, gate = world.store.save_intent, asyncio.Event(), asyncio.Event()

    async def slow(intent: Intent) -> None:
        if intent.state is IntentState.ANSWERED:
            storing.set()
            await gate.wait()
        await save(intent)

    monkeypatch.setattr(world.store, "save_intent", slow)
    await world.request("first")
    await storing.wait()
    await world.request("second", spec=replace(SPEC, image_id="ami-2"))
    await until(lambda: len(world.cloud.requests()) == 2)
    gate.set()
    assert [market for market, _ in asked(world)] == [ON_DEMAND, ON_DEMAND]


async def test_an_unavailable_discounted_place_does_not_delay_the_start(world: World) -> None:
    await world.restart(discounts=(Discount(T4, 0.3, 1),))
    world.cloud.sell_out(ON_DEMAND)
    lease = await world.request()
    assert (await found(world, lease)).market is SPOT
    assert [market for market, _ in asked(world)] == [ON_DEMAND, SPOT]


# --- hints -----------------------------------------------------------------------------------


async def test_zones_suggested_by_ec2_come_first(world: World) -> None:
    await six_zones(world)
    world.cloud.sell_out(SPOT)
    hint = (
        f"We currently do not have sufficient {T4} capacity in the Availability Zone you requested "
        f"({A}). You can currently get {T4} capacity by choosing us-east-1d, us-east-1f."
    )
    world.cloud.refuse("InsufficientInstanceCapacity", ON_DEMAND, zone=A, message=hint)
    await found(world, await world.request("first"))
    await found(world, await world.request("second"))
    request = world.cloud.requests()[-1]
    assert request.market is ON_DEMAND
    assert [subnet for _, subnet in request.offers[:2]] == ["subnet-d", "subnet-f"]
    assert request.preferred == 2
    assert "subnet-a" not in {subnet for _, subnet in request.offers}


# --- many at once ----------------------------------------------------------------------------


async def test_decisions_do_not_block_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that starts fifty kinds of machines does not stall the hub."""
    decided, next_order = [], Offers.next_order

    def counted(self: Offers, *arguments: Any) -> Order | None:
        decided.append(virtual_loop().turns)
        return next_order(self, *arguments)

    monkeypatch.setattr(Offers, "next_order", counted)
    specs = [replace(SPEC, image_id=f"ami-{number}") for number in range(20)]
    async with world.no_pass:
        await asyncio.gather(*(world.request(spec.image_id, spec=spec) for spec in specs))
    await world.boot(20)
    assert len(decided) == len(set(decided)) == 20


async def test_the_reason_of_a_failed_round_is_found_once_and_in_its_own_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    worded = []

    def counted(*arguments: Any, **named: Any) -> Stop:
        worded.append(virtual_loop().turns)
        return launch_failure(*arguments, **named)

    monkeypatch.setattr(controller, "launch_failure", counted)
    world.cloud.sell_out(SPOT)
    world.cloud.sell_out(ON_DEMAND)
    await world.restart(batch_window=0.3)
    specs = [replace(SPEC, image_id=f"ami-{number}") for number in range(3)]
    users = [(spec, f"{spec.image_id}-{number}") for spec in specs for number in range(5)]
    leases = await asyncio.gather(*(world.request(user, spec=spec) for spec, user in users))
    stops = [await world.stop_of(lease) for lease in leases]
    assert {stop.reason for stop in stops} == {"capacity"}
    assert len(worded) == len(set(worded)) == 3


async def test_a_launch_waits_while_further_starts_arrive(world: World) -> None:
    await world.restart(longest_batch=600.0)
    leases = world.provisioner._state.leases
    async with world.no_pass:
        first = await world.request("first")
        leases.added_at = float("inf")  # one arrives at any moment
        passes = world.passes
    await until(lambda: world.passes > passes + 2)
    assert not world.cloud.requests()
    second = await world.request("second")
    await found(world, first)
    await found(world, second)
    assert [request.count for request in world.cloud.requests()] == [2]


async def test_a_launch_waits_a_second_at_most_for_further_starts(world: World) -> None:
    async with world.no_pass:
        lease = await world.request()
        world.provisioner._state.leases.added_at = float("inf")
    await found(world, lease)


async def test_a_round_before_its_first_call_has_all_its_instances_outstanding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance with the hub's tag and without a client token was not launched by the round."""
    foreign = Instance("i-1", InstanceState.RUNNING, T4, A, SPOT, world.clock(), tags={HUB: "hub"})
    monkeypatch.setattr(world.provisioner._state.instances, "listed", {"i-1": foreign})
    launches = world.provisioner._state.launches
    launches.in_progress.append(Round(SPEC, frozenset({A}), 2, frozenset({SPOT})))
    assert len(list(launches.outstanding())) == 2
    launches.in_progress.clear()


async def test_starts_that_arrive_while_a_round_fails_are_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start that waited for the response gets the reason, not the one made a moment ago."""
    world.cloud.refuse_offers("UnauthorizedOperation")
    came = asyncio.Event()

    def one_more(state: State, without: Collection[Round]) -> Stock:
        if not came.is_set():
            came.set()
            state.leases._leases["second"] = second  # no pass has seen it
        return take_stock(state, without)

    monkeypatch.setattr(controller, "take_stock", one_more)
    first = await world.request("first")
    second = replace(first, lease_id="second", user="second")
    assert (await world.stop_of(first)).reason == "failed"
    assert (await found(world, second)).market is SPOT


async def test_an_instance_that_arrives_while_a_round_fails_is_kept(world: World) -> None:
    await world.restart(batch_window=0.3)
    world.cloud.sell_out(SPOT)
    world.cloud.sell_out(ON_DEMAND)
    gate = world.cloud.hold("launch", after=True)
    async with world.no_pass:
        leases = await asyncio.gather(world.request("first"), world.request("second"))
    await until(world.cloud.requests)
    gate.set()
    await until(lambda: world.provisioner._launch._failed, "the round to fail")
    # An instance of another user's, who no longer wants it.
    registry = world.provisioner._state.leases
    await registry.change(leases[0].lease_id, state=LeaseState.STARTING)
    await world.state(leases[1], LeaseState.ENDED)
    await world.settle()
    assert world.now(leases[0]).state is LeaseState.STARTING


async def test_nothing_more_is_bought_when_a_home_no_longer_permits_it(world: World) -> None:
    """A home that is made while its server waits binds it to one zone: another round's."""
    world.cloud.sell_out(SPOT)
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    await until(world.cloud.requests)
    bound = replace(SPEC, subnets=("subnet-b",))
    await world.provisioner._state.leases.change(lease.lease_id, spec=bound)
    await until(lambda: len(world.cloud.requests()) >= 2)
    gate.set()
    await found(world, lease)
    await world.settle()
    assert asked(world) == [(SPOT, {A, B}), (SPOT, {B}), (ON_DEMAND, {B})]
    assert len(world.cloud.machines) == 1


async def test_a_start_whose_subnets_were_removed_ends_with_a_reason(
    world: World,
) -> None:
    await a_home_in_b(world)
    await world.restart(subnets=("subnet-a",))
    gone = replace(SPEC, subnets=("subnet-b",))
    stop = await world.stop_of(await world.request(home_kind="ebs", spec=gone))
    assert "no zone of this hub has a type that fits" in stop.message


# --- a home's zone ---------------------------------------------------------------------------


async def a_home_in_b(world: World) -> None:
    """Ada's server has been there before."""
    await prices(world, a=0.2, b=0.1)
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.stop_of(lease)
    await until(lambda: not world.cloud.running())
    world.cloud.calls.clear()


async def test_a_home_gets_another_type_in_its_zone_and_then_on_demand_there(world: World) -> None:
    await a_home_in_b(world)
    world.cloud.prices[A10G, B] = 0.4
    await world.provisioner.market.prices.refresh()
    world.cloud.sell_out(SPOT, T4)
    both = replace(SPEC, instance_types=(T4, A10G), subnets=world.subnets("ada"))
    first = await world.request(home_kind="ebs", spec=both)
    assert (await found(world, first)).answer == f"{A10G} in {B}"
    await world.stop(first)
    await until(lambda: not world.cloud.running())
    world.cloud.sell_out(SPOT, A10G)
    second = await world.request(home_kind="ebs", spec=both)
    attempt = await found(world, second)
    assert (attempt.market, attempt.answer) == (ON_DEMAND, f"{T4} in {B}")
    assert asked(world) == [(SPOT, {B}), (SPOT, {B}), (ON_DEMAND, {B})]


async def test_a_home_zone_without_capacity_is_named_as_the_reason(world: World) -> None:
    await a_home_in_b(world)
    for market in Market:
        world.cloud.capacity[market, T4, B] = 0
    stop = await world.stop_of(await world.request(home_kind="ebs"))
    assert "spot and on-demand are sold out in us-east-1b." in stop.message
    assert "Your home is in us-east-1b, so only machines there can be used." in stop.message


# --- attempts --------------------------------------------------------------------------------


async def test_an_attempt_is_shown_as_it_happens_and_survives_a_restart(world: World) -> None:
    await prices(world, a=0.2, b=0.1)
    gate = world.cloud.hold("launch")
    lease = await world.request()
    await until(lambda: world.now(lease).attempts)
    [attempt] = world.now(lease).attempts
    assert attempt == Attempt(
        market=SPOT,
        instance_types=(T4,),
        zones=(B, A),
        at=world.clock(),
        usd_per_hour=0.1,
        asked_usd_per_hour=0.1,
        outcome=AttemptOutcome.ASKING,
    )
    changed = asyncio.create_task(
        world.provisioner._state.leases.wait_for_change(lease.lease_id, TIMEOUT)
    )
    await asyncio.sleep(0)
    gate.set()
    assert await changed, "watchers are notified"
    await found(world, lease)
    await world.complete_passes(1)
    attempts = world.now(lease).attempts
    await world.restart()
    assert world.now(lease).attempts == attempts


async def test_attempts_recorded_during_a_write_are_stored_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cloud.hold("launch")
    lease = await world.request()
    await until(lambda: world.now(lease).attempts)
    await world.watch_passes(1)
    save, writing, gate = world.store.save_lease, asyncio.Event(), asyncio.Event()

    async def slow(written: Lease, costs: Sequence[CostRow] = ()) -> None:
        writing.set()
        await gate.wait()
        await save(written, costs)

    monkeypatch.setattr(world.store, "save_lease", slow)
    registry = world.provisioner._state.leases
    change = asyncio.create_task(registry.change(lease.lease_id, sealed_start="changed"))
    await writing.wait()
    attempt = replace(world.now(lease).attempts[0], answer="remembered")
    registry.remember(lease.lease_id, attempts=(attempt,))
    gate.set()
    await change
    await world.watch_passes(1)
    [stored] = (await world.store.load()).leases
    assert (stored.sealed_start, stored.attempts) == ("changed", (attempt,))


async def test_only_the_last_attempts_are_kept(world: World) -> None:
    lease = await world.request()
    for _ in range(8):
        world.cloud.sell_out(SPOT)
        [instance_id] = await world.boot()
        await world.complete_passes(1)
        world.clock.advance(181)
        await world.provisioner._state.leases.change(lease.lease_id, replaced=0)
        world.cloud.end(instance_id)
    await world.boot()
    await world.complete_passes(1)
    attempts = world.now(lease).attempts
    assert len(attempts) == 12
    assert attempts[-1].outcome is AttemptOutcome.FOUND


async def test_a_call_replayed_after_a_crash_is_the_same_attempt(
    world: World,
) -> None:
    """Whatever has changed meanwhile: prices, marks, subnets."""
    await prices(world, a=0.1, b=0.2)
    gate = world.cloud.hold("launch")
    lease = await world.request()
    await until(world.cloud.requests)
    await world.watch_passes(1)
    await world.kill()
    del gate
    world.cloud.prices = {(T4, A): 5.0, (T4, B): 6.0}
    world.cloud.not_offered = {(T4, A)}
    world.clock.advance(60)
    await world.start()
    attempt = await found(world, lease)
    first, *replays = world.cloud.requests()
    assert replays == [first]
    assert (attempt.market, attempt.answer) == (SPOT, f"{T4} in {A}")
    assert world.now(lease).attempts == (attempt,)
    assert attempt.at <= world.clock() - timedelta(seconds=60)


async def test_the_response_to_a_replayed_call_is_recorded(world: World) -> None:
    gate = world.cloud.hold("launch")
    lease = await world.request()
    await until(world.cloud.requests)
    await world.kill()
    del gate
    world.cloud.sell_out(SPOT)
    await world.start()
    assert (await found(world, lease)).market is ON_DEMAND
    assert [market for market, _ in asked(world)] == [SPOT, SPOT, ON_DEMAND]
    marks = world.provisioner.market.offers.sold_out.all(world.clock())
    assert {mark.error_class for _, mark in marks} == {ErrorClass.OFFER}


async def test_nothing_more_is_bought_for_a_cancelled_start(world: World) -> None:
    world.cloud.sell_out(SPOT)
    gate = world.cloud.hold("launch")
    cancelled, stays = await asyncio.gather(world.request("gone"), world.request("stays"))
    await until(world.cloud.requests)
    await world.stop(cancelled)
    await world.state(cancelled, LeaseState.ENDED)
    gate.set()
    await found(world, stays)
    await world.settle()
    assert [(r.market, r.count) for r in world.cloud.requests()][-1] == (ON_DEMAND, 1)
    assert len(world.cloud.machines) == 1


async def test_a_busy_ec2_is_not_retried_for_a_cancelled_start(world: World) -> None:
    world.cloud.fail("launch", THROTTLED, times=10_000)
    lease = await world.request()
    await until(world.cloud.requests)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    before = len(world.cloud.requests())
    await world.complete_passes(2)
    assert len(world.cloud.requests()) == before
    assert world.provisioner._state.launches.in_progress == []


# --- in the background -----------------------------------------------------------------------


async def test_background_work_does_not_delay_a_start(world: World) -> None:
    await world.kill()
    for name in (
        "offerings",
        "describe_types",
        "spot_history",
        "on_demand_prices",
        "resource_prices",
    ):
        world.cloud.fail(name, CloudError("UnauthorizedOperation", "no", retryable=False), 1000)
    for name in ("reservations", "find_image", "delete_old_templates"):
        world.cloud.fail(name, THROTTLED, 1000)
    await world.start()
    lease, _ = await world.ready()
    assert lease.state is LeaseState.READY


async def test_old_launch_templates_are_deleted_from_time_to_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cloud.old_templates = 3
    world.cloud.fail("delete_old_templates", THROTTLED)
    with caplog.at_level(logging.INFO):
        await world.restart(template_interval=60.0)
        await until(lambda: world.cloud.old_templates == 0)
        await until(lambda: "Deleted 3 launch templates" in caplog.text)
    call = world.cloud.of("delete_old_templates")[-1]
    assert call.arguments == ("hub", world.store.store_id, world.clock() - timedelta(days=7))


async def test_the_lease_of_a_served_start_still_has_the_found_offer(world: World) -> None:
    """A claim can be faster than the answer that named its instance."""
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await world.watch_passes(1)
    gate.set()
    assert await claim
    assert (await found(world, lease)).answer == f"{T4} in {A}"

"""A start that waits for spot buys nothing dearer unless its user agrees, and costs nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.offers.spot_wait import PAUSE, Wait
from ec2spawner.provisioner.launch.spot_waits import NotWaiting
from ec2spawner.provisioner.model.leases.lease import AttemptOutcome, Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
T4 = "g4dn.xlarge"
MARKS_LAST = 181
"""Seconds after which what was sold out is asked for again."""


async def waiting(
    world: World, user: str = "ada", *, limit: float | None = None, minutes: float = 10
) -> Lease:
    """A start that asks for spot alone, and may have on-demand if its user agrees."""
    spec = replace(SPEC, markets=(SPOT,), max_usd_per_hour=limit)
    wait = Wait(world.clock() + timedelta(minutes=minutes), (ON_DEMAND,))
    return await world.request(user, spec=spec, wait=wait)


async def waits(world: World, lease: Lease) -> None:
    """Until EC2 has said that it has none, and some passes after that."""
    await until(lambda: world.provisioner.spot_waits.is_waiting(world.now(lease)), "the wait")
    await world.complete_passes(3)
    assert world.now(lease).state is LeaseState.WAITING
    assert world.cloud.running() == []


def later(world: World, seconds: float) -> None:
    """A pass comes every few seconds; this one need not be waited for."""
    world.clock.advance(seconds)
    world.provisioner._state.wake()


def markets_asked(world: World) -> list[Market]:
    return [request.market for request in world.cloud.requests()]


async def priced(world: World, usd: float) -> None:
    world.cloud.prices = {(T4, zone): usd for zone in world.cloud.subnets.values()}
    await world.provisioner.market.prices.refresh()


async def test_a_wait_makes_no_calls_and_starts_when_spot_is_back(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world)
    await waits(world, lease)
    assert markets_asked(world) == [SPOT], "what is known to be sold out is not asked for again"
    later(world, MARKS_LAST)
    await until(lambda: len(markets_asked(world)) == 2, "the next try")
    await waits(world, lease)

    world.cloud.capacity.clear()
    later(world, MARKS_LAST)
    await until(lambda: world.cloud.running(), "a spot instance")
    assert markets_asked(world) == [SPOT, SPOT, SPOT]
    await world.settle()
    assert world.now(lease).attempts[-1].outcome is AttemptOutcome.FOUND


async def test_a_wait_continues_after_a_restart_of_the_hub(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world)
    await waits(world, lease)
    await world.restart()
    assert world.now(lease).wait == lease.wait
    world.cloud.capacity.clear()
    later(world, PAUSE.total_seconds())  # what was sold out was known to the old process alone
    await until(lambda: world.cloud.running(), "a spot instance")
    assert set(markets_asked(world)) == {SPOT}


async def test_a_wait_ends_in_time_and_names_what_it_waited_for(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world, minutes=10)
    await waits(world, lease)
    later(world, 601)
    stop = await world.stop_of(lease)
    assert stop.reason == "capacity", "so its user is offered what else there is"
    assert "within 10 min" in stop.message
    assert "spot is sold out in us-east-1a and b" in stop.message
    assert world.cloud.running() == []


async def test_a_wait_without_a_spot_role_ends_at_once_with_the_fix(world: World) -> None:
    world.cloud.refuse("AuthFailure.ServiceLinkedRoleCreationNotPermitted", SPOT)
    stop = await world.stop_of(await waiting(world))
    assert stop.reason == "capacity", "so its user is offered what else there is"
    assert "aws iam create-service-linked-role" in stop.message
    assert " min. " not in stop.message, "it has not waited"
    other = await world.stop_of(await waiting(world, "bob"))
    assert other.message == stop.message
    assert markets_asked(world) == [SPOT], "bob's is ended by what ada's has learned"


async def test_a_wait_for_a_type_that_does_not_work_ends_at_once(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world)
    await waits(world, lease)
    zones, image_id = world.cloud.subnets.values(), lease.spec.image_id
    world.provisioner.market.offers.sold_out.learn_unusable(T4, image_id, zones, "", world.clock())
    world.provisioner._state.wake()
    stop = await world.stop_of(lease)
    assert "the image has no driver for the GPU" in stop.message


async def test_a_wait_without_any_call_makes_one_before_it_ends(world: World) -> None:
    """The hub was away, or the home was on its way to another zone: no purchase was refused."""
    lease, agent = await world.ready(home_kind="ebs")
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await until(lambda: not world.cloud.running(), "the instance ends")
    home = world.provisioner._state.homes.of("ada", "")
    assert home is not None
    world.cloud.snapshot_seconds = 900
    elsewhere = "us-east-1b" if home.zone == "us-east-1a" else "us-east-1a"
    await world.change_home(world.provisioner.homes.plan_move(home, elsewhere))
    spec = replace(SPEC, markets=(SPOT,), subnets=world.subnets("ada"))
    wait = Wait(world.clock() + timedelta(minutes=10), (ON_DEMAND,))
    lease = await world.request(spec=spec, wait=wait, home_kind="ebs")
    await world.complete_passes(2)
    later(world, 901)
    await until(lambda: world.cloud.running(), "a spot instance")
    assert world.now(lease).stop is None


async def test_a_start_that_lost_its_instance_late_gets_another(world: World) -> None:
    lease = await waiting(world, minutes=10)
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    world.clock.advance(601)
    await agent.event("stopped")
    await until(lambda: set(world.cloud.running()) - {instance_id}, "another")
    assert world.now(lease).stop is None


async def test_a_start_with_a_pending_instance_does_not_wait(world: World) -> None:
    """Its page would say that no machine is paid for, and offer to buy a second one."""
    lease = await waiting(world)
    await world.boot()
    world.cloud.sell_out(SPOT)
    other = await waiting(world, "bob")
    await until(lambda: world.provisioner.spot_waits.is_waiting(world.now(other)), "bob waits")
    assert world.now(lease).state is LeaseState.WAITING, "nothing has claimed yet"
    assert not world.provisioner.spot_waits.is_waiting(world.now(lease))
    with pytest.raises(NotWaiting):
        await world.provisioner.spot_waits.buy_on_demand(lease.lease_id, None)


async def test_a_user_agrees_to_on_demand_only_at_the_shown_price(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world)
    await waits(world, lease)
    await world.provisioner.spot_waits.buy_on_demand(lease.lease_id, 0.526)
    await until(lambda: world.cloud.running(), "an on-demand instance")
    assert markets_asked(world)[-1] is ON_DEMAND
    assert world.now(lease).spec.max_usd_per_hour == 0.526
    with pytest.raises(NotWaiting):
        await world.provisioner.spot_waits.buy_on_demand(lease.lease_id, 0.526)


async def test_a_price_above_the_agreed_one_is_not_paid(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world)
    await waits(world, lease)
    await world.provisioner.spot_waits.buy_on_demand(lease.lease_id, 0.50)
    stop = await world.stop_of(lease)
    assert "$0.50/h" in stop.message
    assert ON_DEMAND not in markets_asked(world)


async def test_agreement_cannot_add_on_demand_to_a_profile(world: World) -> None:
    world.cloud.sell_out(SPOT)
    spec = replace(SPEC, markets=(SPOT,))
    lease = await world.request(spec=spec, wait=Wait(world.clock() + timedelta(minutes=9)))
    await waits(world, lease)
    with pytest.raises(NotWaiting):
        await world.provisioner.spot_waits.buy_on_demand(lease.lease_id, None)


async def test_anothers_on_demand_instance_is_not_given_to_a_waiting_start(world: World) -> None:
    world.cloud.sell_out(SPOT)
    lease = await waiting(world, "ada")
    await waits(world, lease)
    other = await world.request("bob")
    await until(lambda: world.cloud.running(), "bob's on-demand instance")
    await world.stop(other)
    await until(lambda: not world.cloud.running(), "the end of bob's")
    assert world.now(lease).state is LeaseState.WAITING


# --- a price limit ---------------------------------------------------------------------------


async def test_nothing_above_the_price_limit_is_requested(world: World) -> None:
    await priced(world, 0.19)
    world.cloud.sell_out(SPOT)
    spec = replace(SPEC, max_usd_per_hour=0.30)
    stop = await world.stop_of(await world.request(spec=spec))
    assert markets_asked(world) == [SPOT]
    assert "above $0.30/h" in stop.message
    assert "on-demand" not in stop.message, "that has not sold out"


async def test_a_limit_below_every_price_is_reported_at_once_with_the_cheapest(
    world: World,
) -> None:
    await priced(world, 0.19)
    spec = replace(SPEC, max_usd_per_hour=0.10)
    stop = await world.stop_of(await world.request(spec=spec))
    assert (
        "This start may pay $0.10/h at most, and the cheapest machine of this kind "
        "is spot at $0.19/h" in stop.message
    )
    assert world.cloud.requests() == []


async def test_a_wait_within_a_limit_starts_when_the_price_falls(world: World) -> None:
    await priced(world, 0.40)
    lease = await waiting(world, limit=0.25)
    await waits(world, lease)
    assert world.cloud.requests() == []
    await priced(world, 0.20)
    world.provisioner._state.wake()
    await until(lambda: world.cloud.running(), "a spot instance")


async def test_an_instance_for_another_limit_is_not_shared(world: World) -> None:
    """It may cost more than what they agreed to."""
    await priced(world, 0.40)
    capped = await waiting(world, "ada", limit=0.25)
    await waits(world, capped)
    free = await world.request("bob", spec=replace(SPEC, markets=(SPOT,)))
    await until(lambda: world.cloud.running(), "bob's instance")
    await world.stop(free)
    await until(lambda: not world.cloud.running(), "the end of bob's")
    assert world.now(capped).state is LeaseState.WAITING

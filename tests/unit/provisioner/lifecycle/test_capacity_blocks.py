"""Servers in a Capacity Block: its price, and how they leave it before EC2 ends their instances."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.alarms.alarm import AlarmRules
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.offers.capacity_blocks import MIN_LAUNCH, MIN_USE, TO_REPLACE, WARNING
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.provisioner.alarms.watch import INTERVAL, AlarmWatch
from ec2spawner.provisioner.model.leases.lease import LIVE, LeaseState
from ec2spawner.provisioner.offers.reserved_capacity import ReservedCapacity
from ec2spawner.provisioner.state.capacity_blocks import CapacityBlocks
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import name_spec, rules
from tests.unit.provisioner.world import Agent, World, until

T4, A = "g4dn.xlarge", "us-east-1a"
ID = "cr-0000000b"
PAID = 24 * 2 * 0.9
"""USD for the two places of a day: 0.90 USD/hour each."""
CHOICE = ReservationChoice(blocks={ID: PAID})
LASTS = timedelta(days=1)
RECLAIMED = timedelta(minutes=30)
LEFT = timedelta(minutes=40)
RESUME = SleepRules(save_seconds=300.0, after_interruption="resume")
STOP = SleepRules(save_seconds=300.0, after_interruption="stop")


def block(world: World, left: timedelta = LASTS, places: int = 2) -> CapacityReservation:
    """A block that ends so much later than now."""
    ends_at = world.clock() + left
    return CapacityReservation(
        ID, T4, A, places, places, ends_at, is_block=True, begins_at=ends_at - LASTS
    )


async def with_block(world: World, listed: CapacityReservation, **settings: Any) -> None:
    """The hub begins, and has listed it."""
    world.cloud.capacity_reserved = {ID: listed}
    await world.restart(**{"capacity_reservations": CHOICE, **settings})
    await until(lambda: world.provisioner.market.reserved.listed_at, "blocks listed")


async def pass_to(world: World, agent: Agent, listed: CapacityReservation, left: timedelta) -> None:
    """It is so long before the end, and a pass has seen it."""
    assert listed.ends_at is not None
    seconds = (listed.ends_at - left - world.clock()).total_seconds()
    await agent.heartbeat_often(seconds, every=300.0)
    await world.complete_passes(2)


async def pass_to_closing(
    world: World, listed: CapacityReservation, instance_id: str, before: timedelta
) -> None:
    """It is so long before an instance without a server ends, and its agent has claimed since."""
    assert listed.ends_at is not None
    world.clock.advance((listed.ends_at - LEFT - MIN_USE - before - world.clock()).total_seconds())
    world.provisioner._state.claims.heard(instance_id)
    await world.complete_passes(3)


async def test_a_server_is_launched_into_the_block_at_its_price(priced: World) -> None:
    world = priced
    await with_block(world, block(world))
    lease, _ = await world.ready()
    [request] = world.cloud.requests()
    assert (request.market, request.reservation, request.is_block) == (Market.ON_DEMAND, ID, True)
    [segment] = world.now(lease).segments
    assert segment.usd_per_hour == pytest.approx(0.9)
    assert segment.source == "paid in advance for its Capacity Block"
    found = " ".join(event.message for event in world.now(lease).events)
    assert f"Capacity Block {ID}" in found


async def test_its_instances_use_no_quota(priced: World) -> None:
    world = priced
    world.cloud.quotas_listed = [ListedQuota("L-DB2E81BA", "Running On-Demand G and VT", 4)]
    alarms = {"alarm_destinations": ("json #1",), "alarms": AlarmRules()}
    await with_block(world, block(world), **alarms)
    await world.ready()
    [watch] = [x for x in world.provisioner._reconciler.controllers if isinstance(x, AlarmWatch)]
    due = watch._due_at
    world.clock.advance(INTERVAL)
    await until(lambda: watch._due_at != due and not watch._is_evaluating, "an evaluation")
    assert not await world.store.alarms.since(world.clock() - LASTS)


async def test_discounts_do_not_apply_to_a_block(priced: World) -> None:
    world = priced
    await with_block(world, block(world), discounts=(Discount(T4, 0.3, 2),))
    lease, _ = await world.ready()
    [segment] = world.now(lease).segments
    assert segment.usd_per_hour == pytest.approx(0.9)
    assert world.provisioner.market.prices.paid_left(T4, A) == 2


async def test_a_price_limit_holds_for_blocks(priced: World) -> None:
    world = priced
    await with_block(world, block(world))
    eve = await world.request("eve")
    await until(lambda: world.cloud.running(), "her instance")
    await world.ready(spec=replace(world.now(eve).spec, max_usd_per_hour=0.8))
    assert [each.reservation for each in world.cloud.requests()] == [ID, ""]


@pytest.mark.parametrize(("more", "used"), [(60.0, True), (-1.0, False)])
async def test_nothing_is_launched_into_a_block_that_ends_soon(
    priced: World, more: float, used: bool
) -> None:
    world = priced
    left = LEFT + MIN_LAUNCH + timedelta(seconds=more)
    await with_block(world, block(world, left))
    await world.ready()
    assert [bool(each.reservation) for each in world.cloud.requests()] == [used]


async def test_a_block_without_its_price_is_not_used(
    priced: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = priced
    choice = ReservationChoice(frozenset({ID}))
    with caplog.at_level(logging.WARNING):
        await with_block(world, block(world), capacity_reservations=choice)
    await world.ready()
    assert [each.reservation for each in world.cloud.requests()] == [""]
    [said] = [x for x in caplog.messages if ID in x]
    assert "upfront_usd" in said


async def test_its_user_is_warned_once(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    _, agent = await world.ready(sleep=RESUME)
    await pass_to(world, agent, listed, LEFT + WARNING + timedelta(minutes=1))
    assert (await agent.heartbeat()).message is None
    await pass_to(world, agent, listed, LEFT + WARNING)
    message = (await agent.heartbeat()).message
    assert message is not None
    assert listed.ends_at is not None
    assert f"{listed.ends_at - LEFT:%H:%M} UTC" in message.text
    state = agent.state_seen
    await world.complete_passes(2)
    again = await agent.heartbeat()
    assert (again.message, again.state) == (message, state)


async def test_a_server_continues_elsewhere_before_ec2_ends_its_instance(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=RESUME)
    await pass_to(world, agent, listed, LEFT + TO_REPLACE + timedelta(minutes=1))
    assert len(world.cloud.running()) == 1
    await pass_to(world, agent, listed, LEFT + TO_REPLACE)
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    assert world.now(lease).state is LeaseState.READY, "it works on until the other one is there"
    assert world.cloud.requests()[-1].reservation == ""
    successor = world.provisioner._state.leases.successor(lease.lease_id)
    assert successor is not None
    await agent.heartbeat()
    await world.complete_passes(2)
    assert world.now(successor).state in LIVE, "no notice was withdrawn"

    [instance_id] = set(world.cloud.running()) - {agent.instance_id}
    assert await Agent(world, instance_id).claim(wait=10.0) is None  # the server runs here still
    await until(lambda: world.now(lease).state is LeaseState.ENDING, "the server leaves")
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.then) == ("interruption", "interruption", "terminate")
    assert 200 < stop.save_seconds <= 300
    assert "Capacity Block" in stop.message
    assert not world.provisioner._state.interruptions.knows(agent.instance_id)
    assert world.now(successor).taken_over.short_runs == 0, "its end is explained"


async def test_a_restarted_hub_that_cannot_list_blocks_yet_keeps_the_next_instance(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=RESUME)
    await pass_to(world, agent, listed, LEFT + TO_REPLACE)
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    successor = world.provisioner._state.leases.successor(lease.lease_id)
    assert successor is not None
    monkeypatch.setattr(ReservedCapacity, "refresh", never_lists)
    await world.restart(capacity_reservations=CHOICE)
    assert world.provisioner.take_up("ada", "", lease.lease_id) is not None
    await agent.heartbeat()
    await world.complete_passes(2)
    assert world.now(successor).state in LIVE
    monkeypatch.undo()
    await until(lambda: world.provisioner.market.reserved.listed_at, "blocks listed")
    await agent.heartbeat()
    await world.complete_passes(2)
    assert world.now(successor).state in LIVE


async def test_the_end_of_a_block_is_known_from_a_listing_during_a_launch(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing's unused places are not: the launch may have taken some of them or not."""
    world = priced
    await with_block(world, block(world, timedelta(hours=3)))
    longer = block(world, LASTS)
    world.cloud.capacity_reserved = {ID: longer}
    monkeypatch.setattr(ReservedCapacity, "_is_launching", lambda _self: True)
    assert not await world.provisioner.market.reserved.refresh()
    assert world.provisioner._state.blocks.ends_at(ID) == longer.ends_at


async def never_lists(_self: ReservedCapacity) -> bool:
    return False


async def test_on_demand_capacity_counts_as_available_after_a_block(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    _, agent = await world.ready(sleep=replace(RESUME, after_interruption="resume-on-demand"))
    await pass_to(world, agent, listed, LEFT + TO_REPLACE)
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    request = world.cloud.requests()[-1]
    assert (request.market, request.reservation) == (Market.ON_DEMAND, "")
    assert (T4, "subnet-a") in request.offers, "EC2 has said nothing of the zone"


async def test_a_server_that_is_not_to_continue_is_saved_and_ends(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=STOP)
    await pass_to(world, agent, listed, LEFT + timedelta(seconds=10))
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(11.0)
    await world.state(lease, LeaseState.ENDING)
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.reason, stop.sleep, stop.save_seconds) == ("interruption", "interruption", 300.0)
    assert len(world.cloud.requests()) == 1


async def test_a_block_that_is_extended_is_not_left(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=STOP)
    await pass_to(world, agent, listed, LEFT + timedelta(minutes=10))
    assert listed.ends_at is not None
    longer = replace(listed, ends_at=listed.ends_at + LASTS)
    world.cloud.capacity_reserved = {ID: longer}
    await world.provisioner.market.reserved.refresh()
    await pass_to(world, agent, listed, RECLAIMED)
    assert world.now(lease).state is LeaseState.READY
    assert world.now(lease).segments[-1].usd_per_hour == pytest.approx(0.45), "of two days"


async def test_a_block_that_is_configured_no_longer_is_left_in_time(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=STOP)
    others = ReservationChoice(frozenset({"cr-0000000c"}))
    await with_block(world, listed, capacity_reservations=others)
    assert world.provisioner.take_up("ada", "", lease.lease_id) is not None
    await pass_to(world, agent, listed, LEFT + timedelta(seconds=10))
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(11.0)
    await world.state(lease, LeaseState.ENDING)


async def test_an_instance_that_ec2_ended_while_no_hub_ran_is_explained(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(sleep=STOP)
    await pass_to(world, agent, listed, timedelta(hours=1))
    await world.kill()
    world.clock.advance(1801.0)
    world.cloud.end(agent.instance_id, "Server.ScheduledStop")
    gate = world.cloud.hold("list_instances")
    await world.start()
    await until(lambda: world.provisioner.market.reserved.listed_at, "blocks listed")
    gate.set()
    stop = await world.stop_of(lease)
    assert "Capacity Block" in stop.message


async def test_a_lingering_instance_ends_with_its_block(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(after_stop=AfterStop("linger", 7200.0))
    await pass_to(world, agent, listed, LEFT + MIN_USE + timedelta(minutes=5))
    await agent.heartbeat()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await pass_to_closing(world, listed, agent.instance_id, timedelta(minutes=1))
    assert world.cloud.running() == [agent.instance_id]
    await pass_to_closing(world, listed, agent.instance_id, timedelta())
    await until(lambda: not world.cloud.running(), "its end")


async def test_no_instance_is_kept_whose_block_ends(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed)
    lease, agent = await world.ready(after_stop=AfterStop("linger", 7200.0))
    await pass_to(world, agent, listed, LEFT + MIN_USE)
    await agent.heartbeat()
    await world.stop(lease)
    stop = world.now(lease).stop
    assert stop is not None
    assert stop.then == "terminate"


async def test_an_instance_of_the_pool_serves_nobody_once_its_block_ends(priced: World) -> None:
    world = priced
    listed = block(world, timedelta(hours=3))
    await with_block(world, listed, pool=rules(1, market=Market.ON_DEMAND))
    name_spec(world)
    [pooled] = await world.boot()
    assert world.cloud.machines[pooled].instance.in_block
    assert await Agent(world, pooled).claim(wait=10.0) is None
    await pass_to_closing(world, listed, pooled, timedelta(minutes=1))
    assert world.cloud.running() == [pooled]
    await pass_to_closing(world, listed, pooled, timedelta())
    await until(lambda: pooled not in world.cloud.running(), "it ends")


def test_what_is_no_block_is_never_left() -> None:
    blocks = CapacityBlocks()
    blocks.learn([CapacityReservation(ID, T4, A, 2, 2)])
    assert blocks.usd_per_hour(ID) is None
    assert blocks.left_at(None) is None

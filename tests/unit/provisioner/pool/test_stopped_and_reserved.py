"""Stopped places of the pool beside capacity reservations, whose places are paid, used or not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.core.pool.rules import PoolRules
from ec2spawner.core.pool.targets import Override
from ec2spawner.core.tags import POOL
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import name_spec, rules, standing
from tests.unit.provisioner.world import SPEC, Agent, World, until

ID = "cr-0000000a"
CHOICE = ReservationChoice(frozenset({ID}))
ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))


def reserve(world: World, places: int) -> None:
    found = CapacityReservation(ID, "g4dn.xlarge", "us-east-1a", total=places, available=places)
    world.cloud.capacity_reserved = {ID: found}


async def begin_reserved(world: World, pool: PoolRules) -> None:
    """The hub starts again, and has listed the reservations when it buys for this pool."""
    await world.restart(pool=pool, capacity_reservations=CHOICE)
    await until(lambda: world.provisioner.market.reserved.listed_at, "reservations listed")
    name_spec(world)
    await until(lambda: world.provisioner.pool.standings(), "targets")


async def prepared(world: World, running: int = 0, places: int = 1) -> dict[str, Agent]:
    """One waits stopped, the others run, beside a reservation."""
    reserve(world, places)
    await begin_reserved(world, rules(running, market=Market.ON_DEMAND, stopped=1))
    await until(lambda: len(world.cloud.running()) == running + 1, "they are bought")
    agents = {each: Agent(world, each) for each in world.cloud.running()}
    for agent in agents.values():
        assert await agent.claim(wait=10.0) is None
    await until(lambda: len(standing(world).startable) == 1, "one waits stopped")
    return agents


def places_taken(world: World) -> list[str]:
    machines = (world.cloud.machines[each] for each in world.cloud.running())
    return sorted(each.instance.reservation for each in machines)


async def test_it_is_prepared_outside_and_what_waits_running_inside(priced: World) -> None:
    await prepared(priced, running=1)
    [stopped] = priced.cloud.stopped()
    assert not priced.cloud.machines[stopped].instance.reservation
    assert places_taken(priced) == [ID]


async def test_a_place_that_is_paid_comes_before_a_stopped_instance(priced: World) -> None:
    world = priced
    await prepared(world)
    for spec in (SPEC, ON_DEMAND):
        before = set(world.cloud.running())
        lease = await world.request(spec.markets[0], spec=spec)
        await until(lambda: set(world.cloud.running()) - before, "an instance")  # noqa: B023
        [instance_id] = set(world.cloud.running()) - before
        await Agent(world, instance_id).serve()
        assert world.now(lease).state is LeaseState.READY
    calls = [each.reservation for each in world.cloud.requests() if POOL not in each.tags]
    assert calls == [ID], "for the first; the second finds it full"
    assert len(world.cloud.of("start")) == 1


async def test_one_in_a_reservation_is_not_stopped_but_replaced(priced: World) -> None:
    world = priced
    reserve(world, 1)
    await begin_reserved(world, rules(1, market=Market.ON_DEMAND))
    [reserved] = await world.boot()
    assert await Agent(world, reserved).claim(wait=10.0) is None
    assert places_taken(world) == [ID]
    until_then = world.clock() + timedelta(hours=1)
    override = Override("t4", Market.ON_DEMAND, 0, until_then, stopped=1)
    await world.provisioner.pool.set_by_hand(override, by="ada")
    running = world.cloud.running
    await until(lambda: running() and reserved not in running(), "another is bought, and it ends")
    assert (places_taken(world), world.cloud.stopped()) == ([""], [])
    assert not standing(world).failure

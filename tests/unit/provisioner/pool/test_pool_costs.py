"""What the pool costs, and what bounds it: caps, limits of the hub, prices that a user accepts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost_rows import HUB, Dimension
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.pool.rules import PoolRule, PoolRules
from ec2spawner.core.pool.targets import Override, ReasonCode
from ec2spawner.provisioner.instances.overhead import Overhead
from ec2spawner.provisioner.model.cloud.instance import Instance
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.retention.running_costs import RunningCosts
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import SPOT, costs, spent
from tests.unit.provisioner.pool.pool_world import Pool, name_spec, rules, standing
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until


async def priced(world: World, *arguments: object, **settings: object) -> None:
    """The pool begins once prices are known."""
    world.cloud.prices = dict(SPOT)
    await world.restart(pool=arguments[0], **settings)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    name_spec(world)
    await until(lambda: world.provisioner.pool.standings(), "targets")


def spot_prices(world: World) -> set[float]:
    offers = world.provisioner.market.offers.all_for(replace(SPEC, markets=(Market.SPOT,)))
    return {each.usd_per_hour for each in offers if each.usd_per_hour is not None}


async def by_cause(world: World) -> dict[str, float]:
    found = await costs(world, Dimension.CAUSE)
    return {key[0]: each.nano_usd / 1e9 for key, each in found.items()}


async def test_waiting_is_overhead_of_the_pool_and_the_rest_is_the_leases(world: World) -> None:
    await priced(world, rules(1))
    pool = Pool(world)
    [agent] = await pool.boot()
    pool.advance(1800)
    lease = await world.request()
    await agent.serve()
    await world.complete_passes(1)
    assert (await by_cause(world))["pool"] == pytest.approx(0.10, abs=0.001)
    await pool.boot(2)
    pool.advance(1800)
    world.silence_agents()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.restart(pool=rules(0))
    name_spec(world)
    await until(lambda: not world.cloud.running(), "the replacement ends")
    await world.complete_passes(2)
    found = await by_cause(world)
    assert sum(found.values()) == pytest.approx(0.30, abs=0.002), "two instances, 90 minutes in all"
    assert found["pool"] == pytest.approx(0.20, abs=0.001)


async def test_what_waits_is_in_the_hubs_sums_before_it_ends(
    world: World,
) -> None:
    await priced(world, rules(1))
    pool = Pool(world)
    await pool.boot()
    for _ in range(30):
        pool.advance(120)
        await world.complete_passes(1)
    assert spent(world, HUB).nano_usd == pytest.approx(0.2e9, rel=0.1)
    assert set(await by_cause(world)) == {"pool"}


async def test_what_a_start_takes_while_others_are_stored_is_counted_once(world: World) -> None:
    await priced(world, rules(2))
    pool = Pool(world)
    await pool.boot(2)
    world.silence_agents()
    first, last = (each.instance_id for each in world.provisioner._state.stock.in_places)
    stored: list[str] = []

    class DuringAStart(Overhead):
        async def of_place(self, instance: Instance, *, runs_on: bool) -> None:
            stored.append(instance.instance_id)
            if instance.instance_id == first:
                lease = await world.request()
                await pool.agents[last].serve()
                await world.stop(lease)
                await world.state(lease, LeaseState.ENDED)

    state, market = world.provisioner._state, world.provisioner.market
    overhead = DuringAStart(state, world.store, market.prices)
    await RunningCosts(state, overhead, world.provisioner._tasks)._store(with_disks=False)
    assert stored == [first]


async def test_a_cap_bounds_what_waits_and_what_is_bought(world: World) -> None:
    await priced(world, rules(5, usd_per_hour=0.65))
    await world.boot(3)
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 3
    assert standing(world).target.reasons[-1].code is ReasonCode.CUT_TO_RULE_CAP
    world.cloud.prices = dict.fromkeys(SPOT, 0.30)
    await until(lambda: len(world.cloud.running()) == 2, "the cap pays for two")


async def test_an_offer_above_a_cap_is_not_asked_for(world: World) -> None:
    world.cloud.sell_out(Market.SPOT)
    del world.cloud.capacity[Market.SPOT, "g4dn.xlarge", "us-east-1b"]
    await priced(world, rules(0, usd_per_hour=0.3))
    world.cloud.prices = SPOT | {("g4dn.xlarge", "us-east-1b"): 0.40}
    await world.complete_passes(3)
    world.provisioner._state.settings = replace(world.settings, pool=rules(1, usd_per_hour=0.3))
    await until(lambda: world.cloud.requests(), "it asks where the cap pays for it")
    await world.complete_passes(3)
    asked = {subnet for request in world.cloud.requests() for _, subnet in request.offers}
    assert asked == {"subnet-a"}


async def test_no_price_is_no_purchase_under_a_cap_and_no_end(world: World) -> None:
    await priced(world, rules(2, usd_per_hour=1.0))
    before = await world.boot(2)
    await world.complete_passes(1)
    world.cloud.prices = {}
    await world.restart()
    name_spec(world)
    await world.complete_passes(3)
    assert world.cloud.running() == before
    assert standing(world).target.reasons[-1].code is ReasonCode.PRICE_UNKNOWN
    world.cloud.end(before[0])
    await world.complete_passes(3)
    assert world.cloud.running() == before[1:]


async def test_no_price_is_no_purchase_of_another_image_under_a_cap(world: World) -> None:
    await priced(world, rules(2, usd_per_hour=1.0))
    await world.boot(2)
    await world.complete_passes(1)
    world.cloud.prices = {}
    await world.restart()
    name_spec(world, image_id="ami-2")
    await until(lambda: not world.cloud.running(), "what fits no start ends")
    await world.complete_passes(3)
    assert not world.cloud.running()
    assert len(world.cloud.requests()) == 1


async def test_what_has_no_price_lets_nothing_be_bought_under_the_cap_on_all(world: World) -> None:
    on_demand = PoolRule("t4", 1, Market.ON_DEMAND)
    await priced(world, rules(2, total=2.0))
    before = await world.boot(2)
    await world.complete_passes(1)
    world.cloud.prices = {}
    await world.restart(pool=PoolRules((*rules(2).rules, on_demand), 2.0))
    name_spec(world)
    await until(lambda: len(world.provisioner.pool.standings()) == 2, "targets")
    await world.complete_passes(3)
    spot, other = world.provisioner.pool.standings()
    assert spot.target.reasons[-1].code is ReasonCode.PRICE_UNKNOWN
    assert (other.target.running, other.missing) == (1, 1)
    assert world.cloud.running() == before


async def test_what_is_being_bought_counts_against_a_cap(world: World) -> None:
    gate = world.cloud.hold("launch")
    await priced(world, rules(1, usd_per_hour=0.3))
    await until(lambda: world.cloud.requests(), "the call is under way")
    name_spec(world, image_id="ami-2")
    await world.watch_passes(3)
    assert standing(world).missing == 1
    assert len(world.cloud.requests()) == 1
    gate.set()


@pytest.mark.parametrize("bounds", [Bounds(usd_per_month=0.45), Bounds(usd_per_hour=0.45)])
async def test_a_limit_of_the_hub_bounds_purchases(world: World, bounds: Bounds) -> None:
    limits = Limits(scopes={HUB: bounds})
    world.cloud.listing_lag = 5.0  # what has just been bought counts as well
    await priced(world, rules(3), limits=limits, spending_days=31)
    await world.boot(2)
    await until(lambda: standing(world).failure, "it is shown")
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 2
    assert "limit" in standing(world).failure.message


async def test_a_limit_that_excludes_what_is_not_sold_out_is_named(world: World) -> None:
    limits = Limits(scopes={HUB: Bounds(usd_per_hour=0.30)})
    await priced(world, rules(0), limits=limits, spending_days=31)
    world.cloud.prices = SPOT | {("g4dn.xlarge", "us-east-1b"): 0.40}
    await until(lambda: 0.40 in spot_prices(world), "the price of the other zone")
    world.cloud.capacity[Market.SPOT, "g4dn.xlarge", "us-east-1a"] = 0
    world.provisioner._state.settings = replace(world.settings, pool=rules(1))
    await until(lambda: standing(world).failure, "it is shown")
    assert not world.cloud.running()
    assert "limit" in standing(world).failure.message


async def test_a_limit_of_the_hub_that_is_used_up_ends_the_pool(world: World) -> None:
    await priced(world, rules(1))
    await world.boot(1)
    await priced(
        world, rules(1), limits=Limits(scopes={HUB: Bounds(usd_per_month=0)}), spending_days=31
    )
    await until(lambda: not world.cloud.running(), "it ends")
    await world.complete_passes(2)
    assert standing(world).target.reasons[-1].code is ReasonCode.LIMIT_REACHED


@pytest.mark.parametrize(("limit", "launches"), [(0.25, 1), (0.15, 1)])
async def test_a_start_with_a_limit_takes_what_costs_no_more(
    world: World, limit: float, launches: int
) -> None:
    await priced(world, rules(1))
    [agent] = await Pool(world).boot()
    claim = asyncio.create_task(agent.claim())
    await world.complete_passes(1)
    async with world.no_pass:
        lease = await world.request(spec=replace(SPEC, max_usd_per_hour=limit))
        granted = await asyncio.wait_for(claim, TIMEOUT) if limit > 0.2 else None
        assert len(world.cloud.requests()) == launches
    assert (granted is not None and granted.lease.lease_id == lease.lease_id) == (limit > 0.2)
    claim.cancel()


async def test_spot_only_and_on_demand_only_get_their_own_market(world: World) -> None:
    await priced(world, rules(1, market=Market.ON_DEMAND))
    [agent] = await Pool(world).boot()
    spot = await world.request("spot", spec=replace(SPEC, markets=(Market.SPOT,)))
    assert await agent.claim(wait=10.0) is None
    other = await world.request("other", spec=replace(SPEC, markets=(Market.ON_DEMAND,)))
    granted = await agent.claim()
    assert granted is not None
    assert granted.lease.lease_id == other.lease_id
    assert world.now(spot).instance_id != agent.instance_id


async def test_a_number_set_by_hand_holds_until_its_end(world: World) -> None:
    await priced(world, rules(1))
    await world.boot(1)
    until_then = world.clock() + timedelta(seconds=100)
    override = Override("t4", Market.SPOT, 3, until_then)
    await world.provisioner.pool.set_by_hand(override, "ann")
    await world.boot(3)
    await priced(world, rules(1))
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 3, "a restart remembers it"
    world.clock.advance(101)
    await until(lambda: len(world.cloud.running()) == 1, "the rules hold again")


async def test_a_slow_boot_of_the_pool_makes_no_start_wait(world: World) -> None:
    await priced(world, rules(1, usd_per_hour=0.25))  # the cap pays for no other one
    [slow] = await world.boot(1)
    await world.complete_passes(1)
    world.clock.advance(200)
    await world.complete_passes(1)
    lease = await world.request()
    await world.boot(2)
    [fresh] = set(world.cloud.running()) - {slow}
    agent = Agent(world, fresh)
    granted = await agent.claim()
    assert granted is not None
    assert granted.lease.lease_id == lease.lease_id

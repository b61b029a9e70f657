"""Instances without a lease are priced by EC2's history, whichever process sees them end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost_rows import Dimension
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.pool.rules import PoolRules
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.provisioner.instances.overhead_period import Period
from ec2spawner.provisioner.instances.unpriced_overhead import UnpricedOverhead
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.wire import Market
from tests.unit.provisioner.costs import SPOT, accept, costs, refuse, spent
from tests.unit.provisioner.pool.pool_world import Pool, name_spec, rules
from tests.unit.provisioner.retained import LINGER, kept
from tests.unit.provisioner.world import SPEC, World, until
from tests.virtual_time import virtual_loop

NO_POOL = PoolRules(())
OPEN = "SELECT instance_id FROM segment WHERE overhead_key IS NOT NULL AND ended_at IS NULL"
ON_DEMAND = 0.526


async def risen(world: World, seconds: float = 1200) -> None:
    """0.20 USD/hour, and 2.00 from so many seconds after now on; the hub begins anew."""
    now = world.clock()
    history = (PricePoint(now - timedelta(days=9), 0.20), PricePoint(now, 0.20))
    later = PricePoint(now + timedelta(seconds=seconds), 2.0)
    world.cloud.histories = dict.fromkeys(SPOT, (*history, later))
    await world.restart()
    await until(lambda: world.provisioner.market.prices._spot, "prices")


async def with_pool(world: World, **fields: object) -> Pool:
    await world.restart(pool=rules(1, **fields))
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    name_spec(world)
    pool = Pool(world)
    await pool.boot()
    return pool


async def left_by_killed_hub(world: World) -> Pool:
    """An instance of the pool, half an hour after the hub was killed and about ten minutes after
    the price has risen."""
    await risen(world)
    pool = await with_pool(world)
    pool.advance(60)
    await world.complete_passes(1)
    await world.kill()
    world.clock.advance(1800)
    return pool


async def by_cause(world: World) -> dict[str, float]:
    """USD that are stored, once prices are read and nothing more is written."""
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.complete_passes(3)
    await until(lambda: not world.store.write_behind._writes, "what is written meanwhile")
    found = await costs(world, Dimension.CAUSE)
    usd = {key[0]: each.nano_usd / 1e9 for key, each in found.items()}
    assert sum(each.unknown for each in found.values()) == 0
    return usd


@pytest.mark.parametrize("minutes", [1, 40])
async def test_the_pool_that_a_restarted_hub_ends_costs_what_it_ran(
    world: World, minutes: int
) -> None:
    """Also where it has not run long enough to be counted before."""
    await risen(world)
    pool = await with_pool(world)
    pool.advance(60 * minutes)
    await world.complete_passes(1)
    await world.kill()
    world.clock.advance(1800)
    await world.start(pool=NO_POOL, want_types=())
    await until(lambda: not world.cloud.running(), "its end")
    due = (0.20 * 1200 + 2.0 * (60 * minutes + 1800 - 1200)) / 3600
    assert await by_cause(world) == {"pool": pytest.approx(due, rel=0.005)}


async def test_a_hub_that_is_killed_before_it_has_read_prices_leaves_it_to_the_next(
    world: World,
) -> None:
    await left_by_killed_hub(world)
    world.cloud.hold("spot_history")
    await world.start(pool=NO_POOL)
    await until(lambda: not world.cloud.running(), "its end")
    await until(lambda: not world.store.write_behind._writes, "a record")
    await world.restart()
    due = (0.20 * 1200 + 2.0 * 660) / 3600
    assert await by_cause(world) == {"pool": pytest.approx(due, rel=0.005)}


@pytest.mark.parametrize("reason", [SPOT_TERMINATION, "Client.InstanceInitiatedShutdown"])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_the_pools_instance_that_ends_by_itself_costs_until_then(
    world: World, reason: str, is_killed: bool
) -> None:
    await risen(world, seconds=7200)
    pool = await with_pool(world)
    [instance_id] = world.cloud.running()
    pool.advance(3600)
    await world.complete_passes(1)
    world.silence_agents()
    world.provisioner._state.settings = replace(world.settings, pool=NO_POOL)
    if is_killed:
        await world.kill()
    world.clock.advance(240)
    world.cloud.end(instance_id, reason)
    if is_killed:
        world.clock.advance(1800)
        await world.start(pool=NO_POOL)
    assert await by_cause(world) == {"pool": pytest.approx(0.20 * 3840 / 3600, rel=0.005)}


@pytest.mark.parametrize("is_denied", [False, True])
async def test_the_pools_instance_that_ended_long_before_a_hub_begins_costs_until_then(
    world: World, is_denied: bool
) -> None:
    """EC2 no longer lists it, and CloudWatch says until when it ran."""
    await risen(world, seconds=4800)
    pool = await with_pool(world)
    [instance_id] = world.cloud.running()
    pool.advance(3600)
    await world.complete_passes(1)
    await world.kill()
    world.clock.advance(1800)
    world.cloud.end(instance_id, "Client.InstanceInitiatedShutdown")
    world.cloud.machines[instance_id].hidden = True
    world.clock.advance(4 * 3600)
    if is_denied:
        world.cloud.fail("ran_until", CloudError("AccessDenied", "no", retryable=False), 1)
    await world.start(pool=NO_POOL)
    await world.complete_passes(1)
    world.clock.advance(200)
    due = (0.20 * 4800 + 2.0 * 600) / 3600
    assert await by_cause(world) == {"pool": pytest.approx(due, rel=0.005)}
    assert not await world.store.ledger.running_overhead()
    await world.restart()
    assert spent(world, "hub").usd == pytest.approx(due, rel=0.005)


async def test_a_place_that_a_hub_was_killed_to_close_ends_where_its_lease_begins(
    world: World,
) -> None:
    await risen(world, seconds=7200)
    pool = await with_pool(world)
    [agent] = pool.agents.values()
    pool.advance(1800)
    world.silence_agents()
    lease = await world.request("ada")
    await agent.serve()
    await world.complete_passes(1)
    world.clock.advance(3600)
    await world.stop(lease)
    await until(lambda: agent.instance_id not in world.cloud.running(), "its end")
    await world.complete_passes(1)
    await world.kill()
    world.run_sql("UPDATE segment SET ended_at = NULL WHERE overhead_key IS NOT NULL")
    for machine in world.cloud.machines.values():
        machine.hidden = True
    world.clock.advance(7200)
    await world.start(pool=NO_POOL)
    await world.complete_passes(1)
    world.clock.advance(200)
    await until(lambda: not world.run_sql(OPEN), "it is closed")
    of_it = f"FROM segment WHERE instance_id = '{agent.instance_id}'"
    waited_until = world.run_sql(f"SELECT ended_at {of_it} AND lease_id IS NULL")
    assert waited_until == world.run_sql(f"SELECT started_at {of_it} AND lease_id IS NOT NULL")


async def test_a_place_that_another_start_left_stays_the_pools_after_a_restart(
    world: World,
) -> None:
    await risen(world, seconds=7200)
    await world.restart(pool=rules(0))
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    lease = await world.request()
    await world.boot()
    async with world.no_pass:
        world.provisioner._state.settings = replace(world.settings, pool=rules(1))
        name_spec(world)
        world.clock.advance(60)
        await world.stop(lease)
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 1, "it fills the place"
    await world.kill()
    world.clock.advance(1800)
    await world.start(pool=NO_POOL)
    await until(lambda: not world.cloud.running(), "its end")
    assert await by_cause(world) == {"pool": pytest.approx(0.20 * 1860 / 3600, rel=0.005)}


async def test_a_cancelled_start_stays_its_users_after_a_restart(world: World) -> None:
    await risen(world)
    lease = await world.request("ada")
    await world.boot()
    await world.complete_passes(1)
    world.clock.advance(1300)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end")
    await until(lambda: not world.store.write_behind._writes, "a record")
    await world.restart()
    due = (0.20 * 1200 + 2.0 * 100) / 3600
    assert await by_cause(world) == {"unassigned": pytest.approx(due, rel=0.005)}
    assert spent(world, "user:ada").usd == pytest.approx(due, rel=0.005)


async def test_what_no_lease_had_costs_a_minute_at_least(world: World) -> None:
    await risen(world)
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    lease = await world.request("ada", spec=spec)
    await world.boot()
    world.clock.advance(20)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end")
    found = await by_cause(world)
    assert found["unassigned"] == pytest.approx(ON_DEMAND * 20 / 3600, rel=0.01)
    assert found["minimum"] == pytest.approx(ON_DEMAND * 40 / 3600, rel=0.01)
    assert spent(world, "user:ada").usd == pytest.approx(ON_DEMAND / 60, rel=0.01)


async def test_what_lingers_when_a_hub_begins_costs_what_it_ran(world: World) -> None:
    await risen(world, seconds=300)
    lease, agent = await kept(world, LINGER)
    await world.complete_passes(1)
    await world.kill()
    world.clock.advance(900)
    await world.start()
    await until(lambda: agent.instance_id not in world.cloud.running(), "its end")
    due = (0.20 * 300 + 2.0 * 600) / 3600
    assert (await by_cause(world))["retention"] == pytest.approx(due, rel=0.005)
    of_lease = 0.20 / 60  # it ended within the minute that EC2 bills
    assert spent(world, "user:ada").usd == pytest.approx(due + of_lease, rel=0.01)
    assert world.provisioner.lease(lease.lease_id) is None


async def test_a_claim_in_a_hubs_first_seconds_leaves_the_pool_its_price(world: World) -> None:
    pool = await left_by_killed_hub(world)
    [agent] = pool.agents.values()
    await world.start()
    name_spec(world)
    await world.request("ada")
    await agent.serve()
    due = (0.20 * 1200 + 2.0 * 660) / 3600
    assert (await by_cause(world))["pool"] == pytest.approx(due, rel=0.005)


async def test_a_price_that_is_read_late_is_stored_though_the_first_write_fails(
    world: World,
) -> None:
    await left_by_killed_hub(world)
    gate = world.cloud.hold("spot_history")
    await world.start(pool=NO_POOL)
    await until(lambda: not world.cloud.running(), "its end")
    for _ in range(3):
        world.clock.advance(60)
        await world.watch_passes(2)
    await until(lambda: not world.store.write_behind._writes, "its account")
    refuse(world)
    pending = world.provisioner._state.spending.pending_overhead
    gate.set()
    await until(pending.all, "a write that fails")
    await world.complete_passes(3)
    accept(world)
    due = (0.20 * 1200 + 2.0 * 660) / 3600
    assert await by_cause(world) == {"pool": pytest.approx(due, rel=0.005)}
    assert not pending.all()


async def test_what_is_older_than_the_history_of_prices_costs_what_it_did(world: World) -> None:
    """EC2's history is a week long."""
    day, now = timedelta(days=1), world.clock()
    points = [(-9, 0.20), (10, 0.21), (19, 2.0)]
    history = tuple(PricePoint(now + days * day, usd) for days, usd in points)
    world.cloud.histories = dict.fromkeys(SPOT, history)
    pool = await with_pool(world)
    for _ in range(40):
        pool.advance(12 * 3600)
        await world.complete_passes(1)
    due = 24 * (0.20 * 10 + 0.21 * 9 + 2.0)
    assert await by_cause(world) == {"pool": pytest.approx(due, rel=0.005)}


@pytest.mark.parametrize("is_listed", [True, False])
async def test_what_is_stored_keeps_its_prices_where_the_history_cannot_be_read(
    world: World, is_listed: bool
) -> None:
    await risen(world, seconds=7200)
    pool = await with_pool(world)
    pool.advance(7200)
    await world.complete_passes(1)
    pool.advance(600)
    await world.complete_passes(1)
    await world.kill()
    world.cloud.fail("spot_history", CloudError("AccessDenied", "no", retryable=False), 100)
    if not is_listed:
        [instance_id] = world.cloud.running()
        world.cloud.end(instance_id, "Client.InstanceInitiatedShutdown")
        world.cloud.machines[instance_id].hidden = True
    await world.start(pool=NO_POOL)
    await until(lambda: not world.cloud.running(), "its end")
    await world.complete_passes(1)
    world.clock.advance(200)
    await until(lambda: not world.run_sql(OPEN), "it is closed")
    due = (0.20 * 7200 + 2.0 * 600) / 3600
    assert spent(world, "hub").usd == pytest.approx(due, rel=0.005)


async def test_a_write_that_waits_does_not_replace_a_newer_account(world: World) -> None:
    await risen(world)
    pool = await with_pool(world)
    pool.advance(60)
    await world.complete_passes(1)
    overhead = world.provisioner._retention.overhead
    async with world.no_pass:
        [instance] = world.provisioner._state.instances.listed.values()
        refuse(world)
        await overhead.of_place(instance, runs_on=True)
        accept(world)
        await overhead.of_unleased([instance])
        await world.store.write_behind.retry()
        assert not world.run_sql(OPEN), "its account has an end"


async def test_periods_are_compared_after_each_reading_and_one_after_the_other(
    world: World,
) -> None:
    state, prices = world.provisioner._state, world.provisioner.market.prices
    unpriced, now = UnpricedOverhead(state, prices), world.clock()
    for number in range(1000):
        segment = Segment(f"i-{number}", Market.SPOT, 0.2, now, now, instance_type="p5.48xlarge")
        unpriced.note(Period("boot", (segment,)), prices.readings)
    async with world.no_pass:
        assert [each async for each in unpriced.repriced()] == []
        assert not unpriced.is_due()
        await prices.refresh()
        assert unpriced.is_due()
        turns = virtual_loop().turns
        assert [each async for each in unpriced.repriced()] == []
        assert virtual_loop().turns - turns > 30
        assert not unpriced.is_due(), "no price was read since"


async def test_what_is_written_while_prices_are_read_is_compared_with_them(world: World) -> None:
    state, prices = world.provisioner._state, world.provisioner.market.prices
    unpriced, now = UnpricedOverhead(state, prices), world.clock()
    segment = Segment("i-1", Market.ON_DEMAND, ON_DEMAND, now, now)
    before = prices.readings
    await prices.refresh()
    unpriced.note(Period("boot", (segment,)), prices.readings)
    assert not unpriced.is_due(), "it has its prices"
    unpriced.note(Period("boot", (segment,)), before)
    assert unpriced.is_due()
    assert [each async for each in unpriced.repriced()] == []
    prices.readings += 1
    assert not unpriced.is_due(), "it is forgotten"

from __future__ import annotations

import asyncio
from dataclasses import replace

from ec2spawner.core.pool.rules import PoolRule, PoolRules
from ec2spawner.core.tags import POOL
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.pool.purchases import MAX_AT_ONCE, MAX_CALLS
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import Pool, begin, name_spec, of_pool, rules, standing
from tests.unit.provisioner.world import SPEC, Agent, World, until


async def test_what_the_pool_lacks_is_bought_in_one_call(world: World) -> None:
    await begin(world, rules(3))
    await world.boot(3)
    await world.complete_passes(2)
    [request] = world.cloud.requests()
    assert (request.count, request.market) == (3, Market.SPOT)
    assert {world.cloud.tags(each)[POOL] for each in world.cloud.running()} == {"t4"}
    assert (standing(world).booting, standing(world).waiting, standing(world).missing) == (3, 0, 0)


async def test_a_start_is_served_by_a_waiting_instance_without_a_pass_or_a_launch(
    world: World,
) -> None:
    await begin(world, rules(2))
    [first, _] = await Pool(world).boot(2)
    async with world.no_pass:
        claim = asyncio.create_task(first.claim())
        await until(lambda: world.provisioner._state.claims.is_waiting(first.instance_id), "waits")
        lease = await world.request()
        granted = await claim
        assert granted is not None
        assert granted.lease.lease_id == lease.lease_id
        assert len(world.cloud.requests()) == 1
    await until(lambda: len(world.cloud.running()) == 3, "the place is filled again")
    assert [each.count for each in world.cloud.requests()] == [2, 1]
    assert [event.message for event in world.now(lease).events][
        -1
    ] == "A machine was ready and waiting"


async def test_starts_at_the_same_moment_each_get_an_instance_at_once(world: World) -> None:
    await begin(world, rules(4))
    agents = await Pool(world).boot(4)
    async with world.no_pass:
        claims = [asyncio.create_task(each.claim()) for each in agents]
        waiting = world.provisioner._state.claims.is_waiting
        await until(lambda: all(waiting(each.instance_id) for each in agents), "all wait")
        leases = await asyncio.gather(*(world.request(f"user-{n}") for n in range(4)))
        granted = await asyncio.gather(*claims)
    got = {each.lease.lease_id for each in granted if each is not None}
    assert got == {each.lease_id for each in leases}


async def test_an_instance_that_served_a_lease_never_returns_to_the_pool(world: World) -> None:
    await begin(world, rules(1))
    [agent] = await Pool(world).boot()
    lease = await world.request()
    await agent.serve()
    await world.boot(2)
    world.silence_agents()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(2)
    assert agent.instance_id not in world.cloud.running()
    assert len(world.cloud.running()) == 1


async def test_what_a_cancelled_start_has_launched_fills_a_place(world: World) -> None:
    await begin(world, rules(0))
    lease = await world.request()
    [instance_id] = await world.boot()
    await world.restart(pool=rules(1))
    name_spec(world)
    await world.stop(lease)
    await world.complete_passes(3)
    assert world.cloud.running() == [instance_id]
    await world.restart()
    await world.complete_passes(3)  # no place is known yet
    assert world.cloud.running() == [instance_id]
    name_spec(world)
    await world.complete_passes(3)
    assert world.cloud.running() == [instance_id]
    assert len(world.cloud.requests()) == 1


async def test_a_smaller_target_ends_those_that_do_not_wait_yet_first(world: World) -> None:
    await begin(world, rules(1))
    [agent] = await Pool(world).boot()
    await begin(world, rules(3))
    await world.boot(3)
    await begin(world, rules(1))
    claim = asyncio.create_task(agent.claim())
    await until(lambda: world.cloud.running() == [agent.instance_id], "one is left")
    claim.cancel()


async def test_a_restart_of_the_hub_keeps_the_pool(world: World) -> None:
    await begin(world, rules(2))
    before = await world.boot(2)
    await world.complete_passes(1)
    await world.restart()
    await world.complete_passes(3)  # the hub does not know yet what an instance is
    assert world.cloud.running() == before
    name_spec(world)
    await world.complete_passes(3)
    assert world.cloud.running() == before
    assert len(world.cloud.requests()) == 1


async def test_without_rules_the_pool_ends(world: World) -> None:
    await begin(world, rules(2))
    await world.boot(2)
    await world.restart(pool=rules(0))
    name_spec(world)
    await until(lambda: not world.cloud.running(), "nothing is left")


async def test_a_pool_that_is_not_configured_any_more_ends(world: World) -> None:
    await begin(world, rules(2))
    await world.boot(2)
    await world.restart(pool=PoolRules())
    await until(lambda: not world.cloud.running(), "nothing is left")


async def test_a_pool_that_the_hub_says_nothing_of_ends_after_five_minutes(world: World) -> None:
    await begin(world, rules(2))
    pool = Pool(world)
    await pool.boot(2)
    await world.restart()
    pool.advance(295)
    await world.complete_passes(3)
    assert len(world.cloud.running()) == 2
    pool.advance(10)
    await until(lambda: not world.cloud.running(), "nothing is left")


async def test_another_image_replaces_the_pool(world: World) -> None:
    await begin(world, rules(2))
    before = await world.boot(2)
    name_spec(world, image_id="ami-2")
    await until(
        lambda: len(of_pool(world)) == 2 and not set(before) & set(of_pool(world)), "replaced"
    )


async def test_an_instance_that_ec2_reclaims_is_replaced_at_once(world: World) -> None:
    await begin(world, rules(1))
    [agent] = await Pool(world).boot()
    world.cloud.end(agent.instance_id)
    await until(lambda: len(of_pool(world)) == 1, "another one")
    assert standing(world).failure is None


async def test_an_instance_that_ends_by_itself_holds_up_the_next(world: World) -> None:
    await begin(world, rules(1))
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    world.cloud.power_off(instance_id)
    await until(lambda: standing(world).failure, "it is shown")
    await world.complete_passes(2)
    assert not world.cloud.running()
    assert instance_id in standing(world).failure.message
    world.clock.advance(61)
    await world.boot(1)


async def test_what_is_sold_out_is_shown_and_asked_for_again_later(world: World) -> None:
    world.cloud.sell_out(Market.SPOT)
    await begin(world, rules(1))
    await until(lambda: standing(world).failure, "it is shown")
    await world.complete_passes(3)
    assert "spot is sold out" in standing(world).failure.message
    calls = len(world.cloud.requests())
    assert calls <= 2
    world.cloud.capacity.clear()
    world.clock.advance(3600)
    await world.boot(1)
    await world.complete_passes(1)
    assert standing(world).failure is None


async def test_a_failure_is_shown_only_while_something_is_missing(world: World) -> None:
    world.cloud.sell_out(Market.SPOT)
    await begin(world, rules(1))
    await until(lambda: standing(world).failure, "it is shown")
    world.provisioner._state.settings = replace(world.settings, pool=rules(0))
    await world.complete_passes(3)
    assert standing(world).failure is not None, "it still holds up purchases"
    world.clock.advance(61)
    await world.complete_passes(3)
    assert standing(world).failure is None


async def test_nothing_is_bought_before_a_start_that_waits_for_its_batch(world: World) -> None:
    await begin(world, rules(0))
    await world.restart(pool=rules(1), longest_batch=60.0)
    lease = await world.request()
    # Further starts keep arriving for a minute.
    world.provisioner._state.leases.added_at = asyncio.get_running_loop().time() + 60
    name_spec(world)
    await world.complete_passes(3)
    assert standing(world).missing == 1
    assert not world.cloud.requests()
    await world.stop(lease)
    await until(lambda: len(of_pool(world)) == 1, "no start waits any more")


async def test_calls_of_the_pool_leave_room_for_those_of_starts(world: World) -> None:
    profiles = [f"profile-{number}" for number in range(MAX_CALLS + 2)]
    gates = [world.cloud.hold("launch") for _ in profiles]
    pool = PoolRules(tuple(PoolRule(each, 1, Market.SPOT) for each in profiles))
    await world.restart(pool=pool)
    world.provisioner.pool.set_specs(dict.fromkeys(profiles, SPEC), {}, homes_bind=False)
    await until(lambda: len(world.cloud.requests()) >= MAX_CALLS, "calls in progress")
    await world.watch_passes(3)
    assert len(world.cloud.requests()) == MAX_CALLS
    for gate in gates:
        gate.set()
    await world.boot(len(profiles))


async def test_a_large_pool_is_bought_in_steps(world: World) -> None:
    gate = world.cloud.hold("launch")
    await begin(world, rules(MAX_AT_ONCE + 2))
    await until(lambda: world.cloud.requests(), "a call in progress")
    await world.watch_passes(2)
    assert [each.count for each in world.cloud.requests()] == [MAX_AT_ONCE]
    gate.set()
    await world.boot(MAX_AT_ONCE + 2)
    assert [each.count for each in world.cloud.requests()] == [MAX_AT_ONCE, 2]


async def test_a_start_does_not_wait_for_a_call_of_the_pool(world: World) -> None:
    gate = world.cloud.hold("launch")
    await begin(world, rules(1))
    await until(lambda: world.cloud.requests(), "the pool's call is under way")
    lease = await world.request()
    [instance_id] = await world.boot(1)
    agent = Agent(world, instance_id)
    assert (await agent.claim()) is not None
    assert world.now(lease).state is LeaseState.STARTING
    gate.set()

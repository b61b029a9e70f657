"""The hub is killed while it buys for the pool: nothing leaks, and nothing is bought twice."""

from __future__ import annotations

import pytest

from ec2spawner.provisioner.model.cloud.cloud import CloudError
from tests.unit.provisioner.pool.pool_world import Pool, begin, name_spec, rules, standing
from tests.unit.provisioner.world import World, until


@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_killed_during_the_call_repeats_it(world: World, after: bool) -> None:
    world.cloud.hold("launch", after=after)
    await begin(world, rules(2))
    await until(lambda: world.cloud.requests(), "the call is under way")
    await world.restart()
    name_spec(world)
    await world.boot(2)
    await world.complete_passes(3)
    assert len(world.cloud.running()) == 2
    assert len({each.client_token for each in world.cloud.requests()}) == 1
    assert world.cloud.requests()[0] == world.cloud.requests()[-1], "word for word"


async def test_what_a_call_without_an_answer_has_launched_is_terminated(world: World) -> None:
    lost = CloudError("RequestTimeout", "no answer", retryable=True)
    world.cloud.fail("launch", lost, after=True)
    await begin(world, rules(2))
    await until(lambda: standing(world).failure, "it is shown")
    await until(lambda: not world.cloud.running(), "what it brought ends")
    world.clock.advance(61)
    await world.boot(2)


async def test_a_hub_killed_after_the_answer_waits_for_the_listing(world: World) -> None:
    world.cloud.listing_lag = 30.0
    await begin(world, rules(2))
    await world.boot(2)
    await until(lambda: len(world.provisioner._state.launches.expected) == 2, "an answer")
    await world.settle()
    await world.restart()
    name_spec(world)
    await world.complete_passes(3)
    assert len(world.cloud.requests()) == 1
    world.clock.advance(31)
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 2


async def test_a_store_that_fails_buys_nothing_and_keeps_what_waits(world: World) -> None:
    await begin(world, rules(1))
    [agent] = await Pool(world).boot()
    world.run_sql(
        "CREATE TRIGGER full BEFORE INSERT ON intent BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    world.provisioner._state.settings = world.settings
    world.cloud.end(agent.instance_id)
    await until(lambda: standing(world).failure, "it is shown")
    assert not world.cloud.running()
    assert len(world.cloud.requests()) == 1

"""What the hub says of the pool's instances, and when: a pool that it says nothing of must end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from ec2spawner.config import Options, validate_options
from ec2spawner.core.pool.targets import Override
from ec2spawner.hub.spawn.pool_specs import PoolSpecs
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import begin, rules
from tests.unit.provisioner.world import World, until


def options(**written: Any) -> Options:
    needed = {"region": "us-east-1", "subnets": ["subnet-a", "subnet-b"]}
    return validate_options({**needed, **written}, cleanup_servers=False)


def specs(world: World, **written: Any) -> PoolSpecs:
    return PoolSpecs(options(**written), world.provisioner, "https://hub.example/hub/api")


async def test_a_pool_that_is_not_configured_any_more_has_no_specs(world: World) -> None:
    await specs(world).refresh()
    assert world.provisioner._state.pool.specs == {}


async def test_an_override_of_a_hub_whose_profiles_are_a_function_keeps_nothing(
    world: World,
) -> None:
    await begin(world, rules(1))
    await world.boot(1)
    await world.restart(pool=rules(0))
    override = Override("t4", Market.SPOT, 1, world.clock() + timedelta(hours=1))
    await world.provisioner.pool.set_by_hand(override, "eva")
    await world.complete_passes(2)
    assert len(world.cloud.running()) == 1
    await specs(world, profile_list=lambda _: []).refresh()
    await until(lambda: not world.cloud.running(), "it ends")


async def test_nothing_is_said_before_ec2_has_said_which_types_it_has(world: World) -> None:
    gate = world.cloud.hold("offerings")
    await world.restart(pool=rules(1))
    running = asyncio.create_task(specs(world).run())
    state = world.provisioner._state
    await until(lambda: state.pool.targets, "targets")
    await world.complete_passes(3)
    assert world.provisioner.market.catalogue.read_at is None
    assert state.pool.specs is None
    gate.set()
    await until(lambda: list(state.pool.specs or ()) == ["t4"], "types are known")
    running.cancel()


async def test_types_that_ec2_does_not_say_in_time_are_those_of_the_bundled_table(
    world: World,
) -> None:
    gate = world.cloud.hold("offerings")
    await world.restart(pool=rules(1))
    running = asyncio.create_task(specs(world).run())
    await until(lambda: world.provisioner._state.pool.specs, "they are said")
    gate.set()
    running.cancel()

"""What the hub says of the pool: its instances, whether one is ready, metrics, and the alarm."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ec2spawner.core.alarms.alarm import AlarmRules, Kind
from ec2spawner.core.instances.matching import Need, Shape, Supply, fits
from ec2spawner.provisioner.pool import standing as standing_module
from ec2spawner.wire import Market
from tests.unit.provisioner.monitoring.counters import counted
from tests.unit.provisioner.monitoring.test_alarms import evaluate, raised
from tests.unit.provisioner.pool.pool_world import Pool, begin, rules, standing
from tests.unit.provisioner.world import World, until


async def test_its_instances_are_shown_as_the_pools(world: World) -> None:
    await begin(world, rules(2))
    await world.boot(2)
    await world.complete_passes(1)
    assert {each.status for each in world.provisioner.overview.unassigned()} == {"pool"}


async def test_a_profile_is_ready_at_once_where_one_waits(world: World) -> None:
    await begin(world, rules(1))
    await world.boot(1)
    await world.complete_passes(1)
    is_ready, everywhere = world.provisioner.pool.is_ready, ("us-east-1a", "us-east-1b")
    assert not is_ready("t4", [Market.SPOT], everywhere), "it boots"
    [agent] = await Pool(world).boot()
    here = world.cloud.machines[agent.instance_id].instance.zone
    assert is_ready("t4", [Market.SPOT, Market.ON_DEMAND], everywhere)
    assert not is_ready("t4", [Market.ON_DEMAND], everywhere)
    assert not is_ready("t4", [Market.SPOT], set(everywhere) - {here})
    assert not is_ready("a10g", [Market.SPOT], everywhere)
    claim = asyncio.create_task(agent.claim())
    await world.request()
    await claim
    assert not is_ready("t4", [Market.SPOT], everywhere), "it is taken"


async def test_starts_that_it_served_and_missed_are_counted(world: World) -> None:
    def counts() -> tuple[float, float]:
        hit, miss = (
            counted("ec2spawner_pool_starts_total", profile="t4", outcome=each)
            for each in ("hit", "miss")
        )
        return hit, miss

    await begin(world, rules(1))
    [agent] = await Pool(world).boot()
    hits, misses = counts()
    await world.request("ann")
    await agent.serve()
    assert counts() == (hits + 1, misses)
    await until(lambda: len(world.cloud.running()) == 2, "its replacement boots")
    await world.ready("bob")
    assert counts() == (hits + 1, misses + 1)


async def test_figures_of_the_pool(world: World) -> None:
    await begin(world, rules(2))
    await Pool(world).boot(2)
    assert world.provisioner.figures().pool == {
        ("t4", "spot", "target"): 2,
        ("t4", "spot", "waiting"): 2,
        ("t4", "spot", "booting"): 0,
    }


async def test_many_places_and_instances_of_one_kind_are_compared_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop answers pages with it: each card of each user asks."""
    compared: list[object] = []

    def counting(need: Need | Shape, supply: Supply | Shape) -> bool:
        compared.append(need)
        return fits(need, supply)

    await begin(world, rules(1))
    await Pool(world).boot()
    state, numbers = world.provisioner._state, range(300)
    async with world.no_pass:
        [place], [instance] = state.pool.places, state.stock.in_places
        monkeypatch.setattr(standing_module, "fits", counting)
        state.pool.places = tuple(replace(place, place_id=f"place {n}") for n in numbers)
        state.stock = replace(
            state.stock, in_places=tuple(replace(instance, instance_id=f"i-{n}") for n in numbers)
        )
        assert standing(world).booting == 300
        assert not world.provisioner.pool.is_ready("t4", [Market.SPOT], [instance.zone])
        assert len(compared) == 1
        state.pool.places = ()
        assert standing(world).booting == 0, "no place is left"


async def test_what_nobody_takes_raises_an_alarm(world: World) -> None:
    alarms = AlarmRules(pool_unused=150.0)
    await begin(world, rules(1), alarm_destinations=("json #1",), alarms=alarms)
    [agent] = await Pool(world).boot()
    await evaluate(world)
    assert await raised(world) == []
    for _ in range(3):
        world.provisioner._state.claims.heard(agent.instance_id)
        await evaluate(world)
    assert await raised(world) == [(Kind.POOL_UNUSED, "t4")]

"""A stopped instance of the pool that a start takes just then: it is that start's, and stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ec2spawner.provisioner.instances.unleased import segments_beside_starts
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.provisioner.pool.stopped_places import StoppedPlaces
from ec2spawner.provisioner.retention.controller import Retention
from ec2spawner.wire import Market
from tests.unit.provisioner.pool.pool_world import begin, rules, standing
from tests.unit.provisioner.world import SPEC, Agent, World, until

ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))


async def prepared(world: World) -> str:
    await begin(world, rules(0, market=Market.ON_DEMAND, stopped=1))
    [instance_id] = await world.boot()
    assert await Agent(world, instance_id).claim(wait=10.0) is None
    await until(lambda: len(standing(world).startable) == 1, "it waits stopped")
    return instance_id


async def started(world: World, instance_id: str) -> Lease:
    lease = await world.request(spec=ON_DEMAND)
    await until(lambda: instance_id in world.cloud.running(), "it is started")
    await world.complete_passes(2)
    return lease


async def test_what_is_about_to_end_stays_where_a_start_takes_it_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance_id = await prepared(world)
    lease = await started(world, instance_id)
    state, stored = world.provisioner._state, asyncio.Event()

    async def wait_for_store(_: object) -> None:
        await stored.wait()

    async def account(*_: object) -> None:
        await until(lambda: state.leases.of_instance(instance_id), "a start takes it")

    async with world.no_pass:
        monkeypatch.setattr(state.retained, "forget", wait_for_store)
        monkeypatch.setattr(Retention, "_account", account)
        kept, instance = state.retained.get(instance_id), state.instances.listed[instance_id]
        assert kept is not None
        claim = asyncio.create_task(Agent(world, instance_id).claim())
        await world.provisioner._retention._end(kept, instance, "no place wants it")
        assert instance_id not in state.claims.unwanted
        assert not state.condemned
        stored.set()
        await claim
    assert world.now(lease).instance_id == instance_id


async def test_one_that_is_being_started_is_not_ended_for_lack_of_a_place(world: World) -> None:
    instance_id = await prepared(world)
    state, retention = world.provisioner._state, world.provisioner._retention
    async with world.no_pass:
        places = StoppedPlaces(state, retention.overhead, retention.offers)
        state.pool.unwanted_stopped = frozenset({instance_id})
        state.pool_starts.begin(instance_id)
        await places.reconcile(world.clock())
        assert not state.pool_starts.unwanted
        state.pool_starts.failed(instance_id)
        await places.reconcile(world.clock())
        assert set(state.pool_starts.unwanted) == {instance_id}


async def test_the_instance_that_boots_for_a_lease_is_not_counted_beside_it(world: World) -> None:
    instance_id = await prepared(world)
    # No other instance is bought in its place, which could serve the lease as well.
    world.cloud.fail("launch", CloudError("Throttling", "slowly", retryable=True), 999)
    lease = await started(world, instance_id)
    state, prices = world.provisioner._state, world.provisioner.market.prices

    def counted() -> set[str]:
        found = segments_beside_starts(state, prices, world.clock())
        return {segment.instance_id for segment in found}

    async with world.no_pass:
        assert instance_id not in counted(), "the lease has reserved its price"
    await world.stop(lease)
    await world.complete_passes(2)
    assert instance_id in counted(), "it fills a place, or is surplus"

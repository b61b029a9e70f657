"""The stock of free instances: how often it is computed, and what counts in it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.provisioner.instances import inventory
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.state.instances.stock import Stock
from ec2spawner.provisioner.state.state import State
from tests.unit.provisioner.world import Agent, World, until

CLASS = 100


async def test_the_stock_is_computed_once_for_each_pass_however_many_claims_wait(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 claims wait on free instances when 100 requests arrive: all between two passes."""
    computed = 0
    take_stock = inventory.take_stock

    def counted(state: State) -> Stock:
        nonlocal computed
        computed += 1
        return take_stock(state)

    monkeypatch.setattr(inventory, "take_stock", counted)
    shutil.copy(empty_store, tmp_path / "store.sqlite")
    world = World(tmp_path)
    await world.start(price_interval=300.0)
    cancelled = [await world.request(f"before-{n}") for n in range(CLASS)]
    running = await world.boot(CLASS)
    state = world.provisioner._state
    state.settings = replace(state.settings, batch_window=300.0)
    await world.watch_passes(1)
    passes = world.passes
    state.wake()
    await until(lambda: world.passes > passes, "the last pass for five minutes")
    for lease in cancelled:
        await world.stop(lease)
    agents = [Agent(world, instance_id) for instance_id in running]
    claims = asyncio.gather(*(agent.claim(wait=900) for agent in agents))
    waiting = state.claims.waiting
    await until(lambda: len(waiting) == CLASS, "all claims")

    computed, passes = 0, world.passes
    leases = [await world.request(f"user-{n}") for n in range(CLASS)]
    assert world.passes == passes, "no pass yet"
    granted = await claims
    assert all(granted)
    assert computed <= world.passes - passes + 1, "one that began, and has not ended"
    states = {world.now(lease).state for lease in leases}
    assert states == {LeaseState.STARTING}
    assert world.cloud.running() == running, "no more are launched, and none is terminated"
    await world.kill()


async def test_an_instance_that_is_listed_before_the_response_counts_once(world: World) -> None:
    gate = world.cloud.hold("launch", after=True)
    await world.request("ada")
    await world.boot()
    await world.watch_passes(1)
    [first] = world.cloud.requests()
    await world.request("bob")
    await world.boot(2)
    assert world.provisioner._state.launches.is_open(first.client_token)
    gate.set()

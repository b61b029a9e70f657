"""Instances that are being terminated get no lease any more."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.provisioner.instances.claims import InstanceUnwanted
from ec2spawner.provisioner.model.leases.lease import Binding, LeaseState
from tests.unit.provisioner.world import Agent, World, until


async def test_an_instance_rejected_while_its_key_is_stored_gets_no_lease(world: World) -> None:
    save, stored = world.store.save_binding, asyncio.Event()

    async def save_late(binding: Binding) -> None:
        await stored.wait()
        await save(binding)

    world.store.save_binding = save_late  # type: ignore[method-assign]
    ada = await world.request("ada")
    [instance_id] = await world.boot()
    claim = asyncio.create_task(Agent(world, instance_id).claim())
    await until(lambda: world.provisioner._state.claims.is_bound(instance_id))
    terminating = world.cloud.hold("terminate")
    await world.stop(ada)
    await until(lambda: world.cloud.of("terminate"))
    bob = await world.request("bob")
    stored.set()
    with pytest.raises(InstanceUnwanted):
        await claim
    assert world.now(bob).state is LeaseState.WAITING
    terminating.set()

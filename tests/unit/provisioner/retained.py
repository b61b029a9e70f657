"""Servers whose instance is kept for their user after the stop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, Agent, World, until

LINGER = AfterStop("linger", 600.0)
STOP = AfterStop("stop", 7 * 86400.0, per_user=2)
ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))
BUSY = CloudError("RequestLimitExceeded", "later", retryable=True)


async def ready(
    world: World, after: AfterStop, user: str = "ada", **more: Any
) -> tuple[Lease, Agent]:
    spec = SPEC if after.then == "linger" else ON_DEMAND
    lease, agent = await world.ready(user, spec=more.pop("spec", spec), after_stop=after, **more)
    await agent.heartbeat()
    return lease, agent


async def end_in_order(world: World, lease: Lease, agent: Agent, reason: str = "user") -> None:
    """Asked to stop, the agent stops and says so at once, and the lease ends."""
    await asyncio.gather(world.stop(lease, reason), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)


async def kept(world: World, after: AfterStop, **more: Any) -> tuple[Lease, Agent]:
    lease, agent = await ready(world, after, **more)
    await end_in_order(world, lease, agent)
    if after.then == "stop":
        await until(lambda: agent.instance_id in world.cloud.stopped(), "it is stopped")
    return lease, agent


async def again(world: World, after: AfterStop, user: str = "ada", **more: Any) -> Lease:
    spec = SPEC if after.then == "linger" else ON_DEMAND
    return await world.request(user, spec=more.pop("spec", spec), after_stop=after, **more)

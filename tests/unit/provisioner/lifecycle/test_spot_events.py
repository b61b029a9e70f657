"""Spot events that reach the hub through EventBridge, beside what agents report."""

from __future__ import annotations

from datetime import timedelta

from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.core.sleep.spot_events import OVERDUE, SpotEvent
from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.world import Agent, World


async def test_an_announced_interruption_is_that_of_the_agent(world: World) -> None:
    lease, agent = await world.ready()
    now = world.clock()
    event = SpotEvent("interruption", agent.instance_id, now)
    contact = world.provisioner._state.leases.contact(lease.lease_id)
    await agent.heartbeat(None)
    world.provisioner.spot_events.happened(event)
    assert contact.interruption_at == event.ends_at
    await agent.heartbeat(None)
    assert contact.interruption_at == event.ends_at, "its agent polls and has not seen it yet"
    exact = event.ends_at - timedelta(seconds=2)
    await agent.heartbeat(None, interruption_at=exact)
    world.provisioner.spot_events.happened(event)
    assert contact.interruption_at == exact
    await agent.heartbeat(None)
    assert contact.interruption_at is None, "withdrawn"


async def test_an_announcement_of_which_nothing_comes_ends(world: World) -> None:
    lease, agent = await world.ready()
    event = SpotEvent("interruption", agent.instance_id, world.clock())
    world.provisioner.spot_events.happened(event)
    world.clock.advance(120 + OVERDUE.total_seconds() + 1)
    await agent.heartbeat(None)
    assert world.provisioner._state.leases.contact(lease.lease_id).interruption_at is None


async def test_events_of_others_and_recommendations_change_nothing(world: World) -> None:
    lease, agent = await world.ready()
    now = world.clock()
    world.provisioner.spot_events.happened(SpotEvent("interruption", "i-00000000", now))
    world.provisioner.spot_events.happened(SpotEvent("rebalance", agent.instance_id, now))
    assert world.provisioner._state.leases.contact(lease.lease_id).interruption_at is None


async def test_the_notice_of_a_start_does_not_end_what_replaces_its_instance(world: World) -> None:
    lease = await world.request(sleep=SleepRules(after_interruption="resume"))
    [first] = await world.boot()
    agent = Agent(world, first)
    assert await agent.claim() is not None
    world.provisioner.spot_events.happened(SpotEvent("interruption", first, world.clock()))
    world.cloud.end(first)
    await world.state(lease, LeaseState.WAITING)
    [second] = await world.boot()

    other = Agent(world, second)
    await other.serve()
    await other.heartbeat(None)
    await world.complete_passes(2)

    assert world.now(lease).state is LeaseState.READY
    assert world.provisioner._state.leases.successor(lease.lease_id) is None

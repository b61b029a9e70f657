"""Waits of the hub for an agent, however often the hub is restarted meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from ec2spawner.provisioner.lifecycle.stored_waits import STORED_EVERY
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.state.waits import RETURN_GRACE
from ec2spawner.wire import Stop
from tests.unit.provisioner.world import Agent, World
from tests.virtual_time import virtual_loop

SILENT_AFTER = 300.0
READY_TIMEOUT = 400.0
STOP_TIMEOUT = 250.0

AWAY = 3600.0
"""Seconds for which no hub runs, which are nobody's silence."""


@pytest.fixture(autouse=True)
async def settings(world: World) -> None:
    await world.restart(agent_silent_after=SILENT_AFTER, ready_timeout=READY_TIMEOUT)
    world.silence_agents()


async def live(world: World, seconds: float) -> None:
    """A hub runs for so long."""
    end = world.clock() + timedelta(seconds=seconds)
    while (left := (end - world.clock()).total_seconds()) > 0:
        world.clock.advance(min(left, 5.0))
        await world.run_passes(1)


async def live_again(world: World, seconds: float) -> None:
    """The hub is killed, is away, and runs for so long."""
    await world.kill()
    world.clock.advance(AWAY)
    await world.start()
    for lease in world.provisioner._state.leases.open():
        world.provisioner.take_up(lease.user, lease.server, lease.lease_id)
    await live(world, seconds)


async def until_over(world: World, lease: Lease, life: float) -> float:
    """Seconds for which hubs ran, each for `life` seconds, until the lease began to end."""
    for lives in range(1, 20):
        await live_again(world, 0.0)
        for second in range(0, int(life), 5):
            await live(world, 5.0)
            if world.now(lease).state not in {LeaseState.STARTING, LeaseState.READY}:
                return (lives - 1) * life + second + 5.0
    raise AssertionError("it is still awaited")


@pytest.mark.parametrize("life", [40.0, 100.0, 200.0])
async def test_a_silent_server_is_awaited_once_over_all_restarts(world: World, life: float) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    waited = await until_over(world, lease, life)
    # Each restart forgets what was not stored yet.
    assert SILENT_AFTER <= waited <= SILENT_AFTER + STORED_EVERY * (SILENT_AFTER // life + 1)
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message) == ("lost", "The instance fell silent")


async def test_silence_before_the_restart_counts(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    await live(world, 200.0)
    await live_again(world, SILENT_AFTER - 200.0 - 10.0)
    assert world.now(lease).state is LeaseState.READY
    await live(world, 10.0 + STORED_EVERY)
    assert (await world.stop_of(lease)).reason == "lost"


async def test_an_agent_has_time_to_call_each_new_hub(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    await live(world, SILENT_AFTER - 5.0)
    for _ in range(3):
        await live_again(world, RETURN_GRACE - 5.0)
        assert world.now(lease).state is LeaseState.READY
    await agent.heartbeat()
    await live(world, SILENT_AFTER - 5.0)
    assert world.now(lease).state is LeaseState.READY


async def test_an_agent_that_is_heard_is_awaited_anew(world: World) -> None:
    lease, agent = await world.ready()
    await agent.heartbeat()
    await live(world, SILENT_AFTER - 20.0)
    await agent.heartbeat()
    await world.run_passes(1)
    await live_again(world, SILENT_AFTER - 5.0)
    assert world.now(lease).state is LeaseState.READY
    await live(world, 5.0)
    assert (await world.stop_of(lease)).reason == "lost"


async def test_agents_that_call_cost_no_write(world: World) -> None:
    lease, agent = await world.ready()
    for _ in range(10):
        await agent.heartbeat()
        await live(world, 50.0)
    assert world.now(lease).waited == 0.0
    assert world.run_sql("SELECT waited FROM lease") == [(0.0,)]


@pytest.mark.parametrize("life", [40.0, 100.0])
async def test_a_start_that_hangs_is_awaited_once_over_all_restarts(
    world: World, life: float
) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await agent.event("home")
    waited = await until_over(world, lease, life)
    assert waited >= READY_TIMEOUT - 5.0
    assert waited <= READY_TIMEOUT + STORED_EVERY * (READY_TIMEOUT // life + 1)
    assert (await world.stop_of(lease)).reason == "failed"


async def test_a_server_that_was_slow_to_start_is_not_silent(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    await agent.claim()
    await agent.event("home")
    await live(world, READY_TIMEOUT - 20.0)
    await agent.event("ready")
    await live_again(world, SILENT_AFTER - 5.0)
    assert world.now(lease).state is LeaseState.READY


@pytest.mark.parametrize("life", [40.0, 100.0])
async def test_a_stop_whose_agent_hangs_is_awaited_once_over_all_restarts(
    world: World, life: float
) -> None:
    await world.restart(stop_timeout=STOP_TIMEOUT)
    lease, agent = await world.ready()
    await agent.heartbeat()
    await world.provisioner.end(lease.lease_id, Stop(reason="user"))
    # The agent is awaited by the loop's clock.
    began, lives = virtual_loop().time(), 0
    while world.now(lease).state is not LeaseState.ENDED:
        waited = virtual_loop().time() - began
        assert waited < 5 * STOP_TIMEOUT, "it is still awaited"
        if waited >= lives * life:
            await live_again(world, 0.0)
            lives += 1
        await asyncio.sleep(5.0)
        await live(world, 5.0)
    waited = virtual_loop().time() - began
    assert waited >= STOP_TIMEOUT - 5.0
    assert waited <= STOP_TIMEOUT + STORED_EVERY * (STOP_TIMEOUT // life + 1) + 10.0

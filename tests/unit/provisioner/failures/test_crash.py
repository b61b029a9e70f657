"""The hub dies at any point, and another process continues from the store and the cloud."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection

from ec2spawner.core import tags
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, TIMEOUT, Agent, World, until


def assert_no_leak(world: World) -> None:
    """Every running instance is wanted, and every request was replayed identically."""
    leases = list(world.provisioner._state.leases.open())
    unleased = set(world.cloud.running()) - {lease.instance_id for lease in leases}
    assert len(unleased) <= sum(lease.state is LeaseState.WAITING for lease in leases)
    assert len(world.cloud.volumes) <= 1
    by_token = itertools.groupby(
        sorted(world.cloud.requests(), key=lambda request: request.client_token),
        key=lambda request: request.client_token,
    )
    for token, requests in by_token:
        assert len({str(request) for request in requests}) == 1, token


async def one_life(world: World, agents: list[Agent]) -> None:
    """A server with a home from its request to its end, as far as the hub lives."""
    lease = await world.request(home_kind="ebs")
    await until(world.cloud.running)
    agent = Agent(world, world.cloud.running()[0])
    agents.append(agent)
    await agent.serve()
    await until(lambda: tags.LEASE in world.cloud.tags(agent.instance_id))
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.settle()


CALLS = ["launch", "create_volume", "attach_volume", "tag", "detach_volume", "terminate"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_in_any_call_to_the_cloud(world: World, call: str, after: bool) -> None:
    """`before`: EC2 never got the call; `after`: it did, and the response was lost."""
    world.cloud.hold(call, after=after)
    agents: list[Agent] = []
    life = asyncio.create_task(one_life(world, agents))
    await until(lambda: world.cloud.of(call))
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    await world.kill()
    world.silence_agents()  # also of a stop that the agent reported before the kill
    await world.start()
    for lease in world.provisioner._state.leases.open():
        await continue_start(world, lease, agents)
    await world.complete_passes(2)
    assert_no_leak(world)
    assert world.cloud.running() == []
    assert len(world.cloud.machines) == 1, "no second instance was ever needed"
    assert len(world.cloud.volumes) == 1
    [volume] = world.cloud.volumes.values()
    assert volume.attached_to is None


async def continue_start(world: World, lease: Lease, agents: list[Agent]) -> None:
    """What user and agent do after the restart, in whichever state the lease is."""
    assert world.provisioner._recovery.take_up("ada", "", lease.lease_id) is not None
    if lease.state is LeaseState.WAITING:
        [instance_id] = await world.boot(1)
        await world.watch_passes(2)
        assert world.cloud.running() == [instance_id], "it is wanted, though nothing claimed yet"
        agents = [Agent(world, instance_id)]
    if lease.state in {LeaseState.WAITING, LeaseState.STARTING}:
        await agents[0].serve()
    if lease.state is not LeaseState.ENDING:
        await world.stop(lease)
        await agents[0].event("stopped")
    await world.state(lease, LeaseState.ENDED)


@pytest.mark.parametrize("writes", range(14))
async def test_killed_after_any_write_to_the_store(world: World, writes: int) -> None:
    """The process ends with one write done and all later ones never made."""
    never = stop_writing_after(world, writes)
    life = asyncio.create_task(one_life(world, []))
    await until(lambda: life.done() or never)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    await world.kill()
    for write in never:
        write.cancel()
    world.silence_agents()  # also of a stop that the agent reported before the kill
    await world.start()
    await world.complete_passes(2)
    assert_no_leak(world)


@pytest.mark.parametrize("writes", range(3))
async def test_a_start_afresh_that_is_killed_starts_no_kept_instance(
    world: World, writes: int
) -> None:
    spec = replace(SPEC, markets=(Market.ON_DEMAND,))
    asked: dict[str, Any] = {"spec": spec, "after_stop": AfterStop("stop", 7 * 86400.0, per_user=2)}
    lease, agent = await world.ready(**asked)
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)
    await until(world.cloud.stopped, "its instance is kept")
    await world.settle()
    never = stop_writing_after(world, writes)
    start = asyncio.create_task(world.request(afresh=True, **asked))
    await until(lambda: start.done() or never)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    await world.kill()
    for write in never:
        write.cancel()
    await world.start()
    orphans = list(world.provisioner._state.leases.open(LeaseState.WAITING))
    assert bool(orphans) != bool(world.provisioner.retained("ada", "")), "both or neither"
    await world.complete_passes(2)
    assert world.cloud.of("start") == []


def stop_writing_after(world: World, writes: int) -> list[asyncio.Future[None]]:
    """The writes that never happen."""
    original, done = world.store._thread.write, itertools.count(1)
    never: list[asyncio.Future[None]] = []

    async def write(work: Callable[[Connection], None]) -> None:
        if never or next(done) > writes:
            never.append(asyncio.get_running_loop().create_future())
            await never[-1]
        await original(work)

    world.store._thread.write = write  # type: ignore[method-assign, assignment]
    return never


async def test_ready_servers_are_ready_after_a_restart(world: World) -> None:
    lease, agent = await world.ready(home_kind="ebs")
    await world.restart()
    await world.complete_passes(2)
    assert world.now(lease) == lease
    assert world.cloud.running() == [agent.instance_id]
    assert len(world.cloud.requests()) == 1
    await agent.heartbeat()


async def test_a_termination_continues_after_a_restart(world: World) -> None:
    lease, agent = await world.ready()
    await world.stop(lease, "idle")
    await world.restart()
    assert world.now(lease).state is LeaseState.ENDING
    assert (await agent.heartbeat()).stop is not None, "the agent is informed by the new process"
    await agent.event("stopped")
    assert (await world.stop_of(lease)).reason == "idle"
    assert world.cloud.running() == []


async def test_the_end_of_a_start_is_not_awaited_after_a_restart(world: World) -> None:
    lease = await world.request()
    [instance_id] = await world.boot()
    await Agent(world, instance_id).claim()
    gate = world.cloud.hold("terminate")
    await world.stop(lease)
    await until(lambda: world.cloud.of("terminate"))
    await world.restart()
    del gate
    await world.state(lease, LeaseState.ENDED)
    assert world.cloud.running() == []


async def test_an_open_intent_is_replayed_identically(world: World) -> None:
    gate = world.cloud.hold("launch")
    lease = await world.request()
    await until(world.cloud.requests)
    await world.restart()
    del gate
    [instance_id] = await world.boot()
    first, *replays = world.cloud.requests()
    assert replays[0] == first
    await Agent(world, instance_id).serve()
    assert world.now(lease).state is LeaseState.READY
    assert len(world.cloud.machines) == 1


async def test_surplus_instances_of_a_replayed_call_are_terminated(world: World) -> None:
    gate = world.cloud.hold("launch", after=True)
    lease = await world.request()
    await world.boot()
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.restart()
    del gate
    await world.complete_passes(2)
    assert world.cloud.running() == []


async def test_a_hub_started_without_ec2_continues_once_it_responds(world: World) -> None:
    lease, _ = await world.ready()
    await world.kill()
    throttled = CloudError("RequestLimitExceeded", "slow down", retryable=True)
    world.cloud.fail("list_instances", throttled, times=3)
    world.cloud.fail("list_volumes", throttled)
    world.cloud.fail("spot_history", throttled)
    await world.start()
    assert await world.provisioner._state.instances.first_listing(TIMEOUT)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY


async def test_a_used_instance_is_not_assigned_after_a_restart(
    world: World,
) -> None:
    """Its launch was answered recently, and EC2 lists it no more: no start waits for it."""
    lease, agent = await world.ready()
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.settle()
    await world.kill()
    del world.cloud.machines[agent.instance_id]
    await world.start()
    await world.complete_passes(2)
    await world.request("eve")
    await until(world.cloud.running, "a machine of her own")

"""Agents that are older or newer than the hub: what their instances and their users get."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import ValidationError

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.provisioner.instances.claims import InstanceUnwanted, SecondKey
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.agent_protocol import SPOKEN, what_it_lacks, why_unfit
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.retention.restart_failure import unfit
from ec2spawner.wire import PROTOCOL, Market, Spoken, Stop
from tests.unit.provisioner.world import SPEC, Agent, World, until

TOO_OLD = Stop(reason="failed", message="too old: bake a new image")
LINGER = AfterStop(then="linger", seconds=600)
STOP = AfterStop(then="stop", seconds=86400, per_user=1)
ON_DEMAND = replace(SPEC, markets=(Market.ON_DEMAND,))


def test_the_hub_speaks_its_protocol_and_the_one_before() -> None:
    assert [why_unfit(each) for each in (PROTOCOL, PROTOCOL - 1)] == ["", ""]
    assert "bake a new image" in why_unfit(PROTOCOL - 2)
    assert "upgrade the hub" in why_unfit(PROTOCOL + 1)
    assert "internal_ssl" in why_unfit(SPOKEN[-1], needs=PROTOCOL)
    assert not why_unfit(PROTOCOL, needs=PROTOCOL)


@pytest.mark.parametrize("number", ["-1", "10000", "9" * 600, "1e300", "null"])
def test_an_invalid_protocol_number_is_no_message(number: str) -> None:
    with pytest.raises(ValidationError):
        Spoken.model_validate_json(f'{{"protocol": {number}}}')


def test_any_valid_protocol_gets_a_message() -> None:
    spoken = Spoken.model_validate_json('{"protocol": 9999}')
    assert Stop(reason="failed", message=why_unfit(spoken.protocol)).message


async def test_an_unfit_agent_fails_the_start_it_would_serve_with_a_message(
    world: World,
) -> None:
    lease, other = await world.request("ada"), await world.request("bea", home_kind="ebs")
    first, second = await world.boot(2)
    agent = Agent(world, first)
    starting = world.provisioner._starts
    await starting.turn_away(agent.claimant(protocol=0), agent.key, 1, TOO_OLD)
    ended = {each.user: world.now(each).stop for each in (lease, other)}
    assert sorted(stop is None for stop in ended.values()) == [False, True]
    assert TOO_OLD in ended.values()
    await until(lambda: first not in world.cloud.running(), "the unfit instance to end")
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    await world.complete_passes(2)
    assert world.cloud.running() == [second], "nothing is launched in its place"


async def test_an_agent_with_a_ready_server_is_not_checked_again(world: World) -> None:
    lease, agent = await world.ready()
    starting = world.provisioner._starts
    await starting.turn_away(agent.claimant(protocol=0), agent.key, 1, TOO_OLD)
    intruder = Agent(world, agent.instance_id)
    with pytest.raises(SecondKey):
        await starting.turn_away(intruder.claimant(protocol=0), intruder.key, 1, TOO_OLD)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert agent.instance_id in world.cloud.running()


async def kept(world: World, after: AfterStop) -> Agent:
    """The agent of ada's server, which has stopped and whose instance is kept."""
    lease, agent = await world.ready("ada", after_stop=after, spec=ON_DEMAND)
    await agent.heartbeat()
    await asyncio.gather(world.stop(lease), agent.event("stopped"))
    await world.state(lease, LeaseState.ENDED)
    return agent


async def turn_away(agent: Agent, wait: float = 0.01) -> None:
    starting = agent.world.provisioner._starts
    await starting.turn_away(agent.claimant(protocol=0), agent.key, wait, TOO_OLD)


async def test_an_unfit_agent_that_lingers_fails_no_start(world: World) -> None:
    agent = await kept(world, LINGER)
    stranger = await world.request("bea", spec=ON_DEMAND)
    again = await world.request("ada", spec=ON_DEMAND, after_stop=LINGER)
    await turn_away(agent)
    await until(lambda: agent.instance_id not in world.cloud.running(), "its end")
    machines = await world.boot(2)
    await asyncio.gather(*(Agent(world, each).serve() for each in machines))
    assert {world.now(each).state for each in (stranger, again)} == {LeaseState.READY}


async def test_an_unfit_agent_on_an_instance_of_an_ended_lease_fails_no_start(
    world: World,
) -> None:
    lease, agent = await world.ready("ada")
    world.cloud.fail("terminate", CloudError("RequestLimitExceeded", "", retryable=True), 100)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    stranger = await world.request("bea")
    world.provisioner._state.claims.unwanted.clear()  # as after a restart of the hub
    await turn_away(agent)
    assert world.now(stranger).stop is None


async def test_an_unfit_agent_on_a_kept_disk_fails_its_own_start_and_keeps_the_disk(
    world: World,
) -> None:
    before = await kept(world, STOP)
    await until(world.cloud.stopped, "it is stopped")
    world.clock.advance(600)
    again = await world.request("ada", spec=ON_DEMAND, after_stop=STOP)
    await until(world.cloud.running, "it is started again")
    stranger = await world.request("bea", spec=ON_DEMAND)
    world.clock.advance(60)
    stops = world.cloud.hold("stop")
    agent, calls = Agent(world, before.instance_id), len(world.cloud.of("stop"))
    while len(world.cloud.of("stop")) == calls:
        await turn_away(agent)  # a 410 would end it, with its disk
    stops.set()
    assert await world.stop_of(again) == Stop(reason="failed", message=unfit(TOO_OLD.message))
    await world.complete_passes(2)
    assert world.cloud.stopped() == [agent.instance_id]
    assert world.provisioner._state.retained.of_server("ada", "")
    assert world.now(stranger).state is LeaseState.WAITING


async def test_an_unfit_agent_on_a_kept_disk_is_held_until_it_is_stopped(world: World) -> None:
    stops = world.cloud.hold("stop")
    agent = await kept(world, STOP)
    stranger = await world.request("bea", spec=ON_DEMAND)
    held = asyncio.create_task(turn_away(agent, wait=60))
    await world.watch_passes(1)
    assert not held.done()
    held.cancel()
    assert world.now(stranger).state is LeaseState.WAITING
    stops.set()
    await until(lambda: world.cloud.stopped() == [agent.instance_id], "it is stopped")


async def test_a_lease_beyond_its_agents_abilities_fails_with_a_message(world: World) -> None:
    lease = await world.request(home_kind="efs")
    assert what_it_lacks(lease, 1)
    assert not what_it_lacks(lease, 2)
    [instance_id] = await world.boot()
    with pytest.raises(InstanceUnwanted, match="EFS"):
        await Agent(world, instance_id).claim(protocol=1)
    stop = await world.stop_of(lease)
    assert "too old for homes on EFS" in stop.message
    await until(lambda: not world.cloud.running(), "the instance to end")


@pytest.mark.parametrize("protocol", [1, 2])
async def test_the_hub_knows_what_a_leases_agent_speaks(world: World, protocol: int) -> None:
    await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    granted = await agent.claim(protocol=protocol)
    assert granted is not None
    assert world.provisioner._state.leases.contact(granted.lease.lease_id).protocol == protocol

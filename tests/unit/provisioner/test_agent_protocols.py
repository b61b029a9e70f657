"""Agents that are older or newer than the hub: what their instances and their users get."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from world import Agent, World, until

from ec2spawner.provisioner.agent_protocols import SPOKEN, what_it_lacks, why_unfit
from ec2spawner.provisioner.claims import InstanceUnwanted, SecondKey
from ec2spawner.provisioner.lease import LeaseState
from ec2spawner.wire import PROTOCOL, Spoken, Stop

TOO_OLD = Stop(reason="failed", message="too old: bake a new image")


def test_the_hub_speaks_its_protocol_and_the_one_before() -> None:
    assert [why_unfit(each) for each in (PROTOCOL, PROTOCOL - 1)] == ["", ""]
    assert "bake a new image" in why_unfit(PROTOCOL - 2)
    assert "upgrade the hub" in why_unfit(PROTOCOL + 1)
    assert "internal_ssl" in why_unfit(SPOKEN[-1], needs=PROTOCOL)
    assert not why_unfit(PROTOCOL, needs=PROTOCOL)


@pytest.mark.parametrize("number", ["-1", "10000", "9" * 600, "1e300", "null"])
def test_a_number_that_no_protocol_has_is_no_message(number: str) -> None:
    with pytest.raises(ValidationError):
        Spoken.model_validate_json(f'{{"protocol": {number}}}')


def test_any_protocol_that_is_one_is_answered_in_words() -> None:
    spoken = Spoken.model_validate_json('{"protocol": 9999}')
    assert Stop(reason="failed", message=why_unfit(spoken.protocol)).message


async def test_the_start_that_an_unfit_agent_would_have_served_fails_in_words(
    world: World,
) -> None:
    lease, other = await world.request("ada"), await world.request("bea", home_kind="ebs")
    first, second = await world.boot(2)
    agent = Agent(world, first)
    starting = world.provisioner.starting
    await starting.turn_away(agent.claimant(protocol=0), agent.key, 1, TOO_OLD)
    ended = {each.user: world.now(each).stop for each in (lease, other)}
    assert sorted(stop is None for stop in ended.values()) == [False, True]
    assert TOO_OLD in ended.values()
    await until(lambda: first not in world.cloud.running(), "the unfit instance to end")
    with pytest.raises(InstanceUnwanted):
        await agent.claim()
    await world.complete_passes(2)
    assert world.cloud.running() == [second], "nothing is launched in its place"


async def test_an_agent_that_serves_is_left_alone(world: World) -> None:
    lease, agent = await world.ready()
    starting = world.provisioner.starting
    await starting.turn_away(agent.claimant(protocol=0), agent.key, 1, TOO_OLD)
    intruder = Agent(world, agent.instance_id)
    with pytest.raises(SecondKey):
        await starting.turn_away(intruder.claimant(protocol=0), intruder.key, 1, TOO_OLD)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert agent.instance_id in world.cloud.running()


async def test_a_lease_that_needs_more_than_its_agent_can_fails_in_words(world: World) -> None:
    lease = await world.request(home_kind="efs")
    assert what_it_lacks(lease, 1)
    assert not what_it_lacks(lease, 2)
    [instance_id] = await world.boot()
    with pytest.raises(InstanceUnwanted, match="EFS"):
        await Agent(world, instance_id).claim(protocol=1)
    stop = await world.ending_of(lease)
    assert "too old for homes on EFS" in stop.message
    await until(lambda: not world.cloud.running(), "the instance to end")


@pytest.mark.parametrize("protocol", [1, 2])
async def test_the_hub_knows_what_a_leases_agent_speaks(world: World, protocol: int) -> None:
    await world.request()
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    granted = await agent.claim(protocol=protocol)
    assert granted is not None
    assert world.provisioner.book.contact(granted.lease.lease_id).protocol == protocol

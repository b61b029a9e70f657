"""Servers whose instance AWS stops or reboots at a time that it has announced."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.instances.scheduled_events import ScheduledEvent
from ec2spawner.core.offers.capacity_blocks import TO_LEAVE, TO_REPLACE, WARNING
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.provisioner.instances.claims import ClaimRefused, SecondKey
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import LIVE, LeaseState
from ec2spawner.wire import ScheduledEventCode
from tests.unit.provisioner.pool.pool_world import name_spec, rules
from tests.unit.provisioner.retained import LINGER, again, end_in_order, kept
from tests.unit.provisioner.retained import STOP as AFTER_STOP
from tests.unit.provisioner.retained import ready as ready_to_keep
from tests.unit.provisioner.world import Agent, World, until

DAYS = timedelta(days=9)
RESUME = SleepRules(save_seconds=300.0, after_interruption="resume")
STOP = SleepRules(save_seconds=300.0, after_interruption="stop")


def announce(
    world: World,
    instance_id: str,
    code: ScheduledEventCode = "instance-retirement",
    after: timedelta = DAYS,
) -> ScheduledEvent:
    """AWS announces it now."""
    event = ScheduledEvent(code, world.clock() + after, world.clock() + after + timedelta(hours=2))
    world.cloud.scheduled = {instance_id: [event]}
    return event


async def read(world: World) -> None:
    """The hub has read what is announced, and acted on it."""
    await world.complete_passes(1)  # what runs is listed
    world.clock.advance(1.0)
    await world.provisioner._scheduled_events.refresh()
    await world.complete_passes(3)


async def pass_to(world: World, agent: Agent, event: ScheduledEvent, before: timedelta) -> None:
    """It is so long before the event, and a pass has seen it."""
    left = (event.not_before - before - world.clock()).total_seconds()
    world.clock.advance(max(left - 600.0, 0.0))
    await agent.heartbeat()
    left = (event.not_before - before - world.clock()).total_seconds()
    await agent.heartbeat_often(left, every=300.0)
    await world.complete_passes(2)


async def test_an_event_is_shown_for_days_and_its_user_warned_half_an_hour_before(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    event = announce(world, agent.instance_id)
    with caplog.at_level(logging.WARNING):
        await read(world)
    [server] = world.provisioner.overview.servers()
    assert server.scheduled_event == event
    assert [x for x in caplog.messages if "AWS has scheduled instance-retirement of" in x]
    await pass_to(world, agent, event, TO_LEAVE + WARNING + timedelta(minutes=6))
    assert (await agent.heartbeat()).message is None
    assert world.now(lease).state is LeaseState.READY
    await pass_to(world, agent, event, TO_LEAVE + WARNING)
    message = (await agent.heartbeat()).message
    assert message is not None
    assert "AWS stops this machine soon" in message.text
    assert f"{event.left_at:%H:%M} UTC and continues" in message.text


@pytest.mark.parametrize(
    ("code", "said"), [("instance-stop", "AWS stops"), ("system-reboot", "AWS reboots")]
)
async def test_a_server_continues_elsewhere_in_time(
    world: World, code: ScheduledEventCode, said: str
) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    event = announce(world, agent.instance_id, code)
    await read(world)
    await pass_to(world, agent, event, TO_LEAVE + TO_REPLACE + timedelta(minutes=1))
    assert len(world.cloud.running()) == 1
    await pass_to(world, agent, event, TO_LEAVE + TO_REPLACE)
    await until(lambda: len(world.cloud.running()) == 2, "another instance")
    assert world.now(lease).state is LeaseState.READY, "it works on until the other one is there"
    successor = world.provisioner._state.leases.successor(lease.lease_id)
    assert successor is not None
    await agent.heartbeat()
    await world.complete_passes(2)
    assert world.now(successor).state in LIVE, "no notice was withdrawn"
    [instance_id] = set(world.cloud.running()) - {agent.instance_id}
    assert await Agent(world, instance_id).claim(wait=10.0) is None  # the server runs here still
    await until(lambda: world.now(lease).state is LeaseState.ENDING, "the server leaves")
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.reason, stop.sleep) == ("interruption", "interruption")
    assert stop.message.startswith(said)
    assert not world.provisioner._state.interruptions.knows(agent.instance_id)


async def test_a_server_that_is_not_to_continue_is_saved_in_time(world: World) -> None:
    lease, agent = await world.ready(sleep=STOP)
    event = announce(world, agent.instance_id)
    await read(world)
    await pass_to(world, agent, event, TO_LEAVE + timedelta(seconds=10))
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(11.0)
    await world.state(lease, LeaseState.ENDING)
    stop = world.now(lease).stop
    assert stop is not None
    assert (stop.sleep, stop.save_seconds) == ("interruption", 300.0)


async def test_what_aws_withdraws_ends_nothing(world: World) -> None:
    lease, agent = await world.ready(sleep=STOP)
    event = announce(world, agent.instance_id)
    await read(world)
    world.cloud.scheduled = {}
    await read(world)
    await pass_to(world, agent, event, timedelta())
    assert world.now(lease).state is LeaseState.READY


async def test_maintenance_is_shown_and_ends_nothing(world: World) -> None:
    lease, agent = await world.ready(sleep=STOP)
    event = announce(world, agent.instance_id, "system-maintenance")
    await read(world)
    [server] = world.provisioner.overview.servers()
    assert server.scheduled_event == event
    await pass_to(world, agent, event, timedelta())
    assert world.now(lease).state is LeaseState.READY


async def test_an_instance_of_the_pool_with_an_event_serves_nobody(world: World) -> None:
    await world.restart(pool=rules(1))
    name_spec(world)
    [pooled] = await world.boot()
    announce(world, pooled)
    await read(world)
    await until(lambda: pooled not in world.cloud.running(), "it is replaced")


@pytest.mark.parametrize(("after", "then"), [(LINGER, "terminate"), (AFTER_STOP, "stop")])
async def test_no_instance_with_an_event_lingers_and_a_stopped_one_keeps_its_disk(
    world: World, after: AfterStop, then: str
) -> None:
    """A stopped one starts on another host."""
    lease, agent = await ready_to_keep(world, after)
    announce(world, agent.instance_id)
    await read(world)
    await agent.heartbeat()
    await world.stop(lease)
    stop = world.now(lease).stop
    assert stop is not None
    assert stop.then == then


async def test_a_lingering_instance_ends_when_an_event_is_announced(world: World) -> None:
    _, agent = await kept(world, LINGER)
    await agent.claim(wait=0)
    announce(world, agent.instance_id)
    await read(world)
    await until(lambda: not world.cloud.running(), "it ends")


async def test_a_stopped_instance_that_is_started_has_left_the_event_behind(world: World) -> None:
    lease, agent = await ready_to_keep(world, AFTER_STOP)
    announce(world, agent.instance_id)
    await read(world)
    await end_in_order(world, lease, agent)
    await until(world.cloud.stopped, "it is stopped")
    await world.complete_passes(2)
    world.clock.advance(3600.0)
    following = await again(world, AFTER_STOP)
    await until(world.cloud.running, "it is started")
    served = await Agent(world, agent.instance_id).serve()
    assert (served.lease_id, served.instance_id) == (following.lease_id, agent.instance_id)


async def test_the_stop_itself_is_explained(world: World) -> None:
    """No hub has moved the server in time."""
    lease, agent = await world.ready(sleep=STOP)
    world.cloud.end(agent.instance_id, "Server.ScheduledStop")
    stop = await world.stop_of(lease)
    assert stop.reason == "interruption"
    assert "as it had announced" in stop.message


async def test_a_reboot_by_aws_is_no_second_key(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The key of the agent was in its memory; no hub has moved the server in time."""
    lease, agent = await world.ready(sleep=RESUME)
    event = announce(world, agent.instance_id, "instance-reboot", timedelta(minutes=6))
    await world.kill()
    world.clock.advance(400.0)
    over = replace(event, is_pending=False)
    world.cloud.scheduled = {agent.instance_id: [over]}
    gate = world.cloud.hold("scheduled_events")
    await world.start()
    assert world.provisioner.take_up("ada", "", lease.lease_id) is not None
    rebooted = Agent(world, agent.instance_id)
    assert await rebooted.claim(wait=1.0) is None, "the hub has read no events yet"
    gate.set()
    with caplog.at_level(logging.WARNING), pytest.raises(ClaimRefused, match="rebooted") as refused:
        await rebooted.claim()
    assert not isinstance(refused.value, SecondKey)
    assert not [x for x in caplog.messages if "ALARM" in x]
    stop = await world.stop_of(lease)
    assert (stop.reason, stop.message[:11]) == ("interruption", "AWS reboots")
    successor = world.provisioner._state.leases.successor(lease.lease_id)
    assert successor is not None


@pytest.mark.parametrize("when", ["before", "long after"])
async def test_another_key_at_another_time_is_an_alarm(world: World, when: str) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    event = announce(world, agent.instance_id, "instance-reboot")
    await read(world)
    if when == "long after":
        over = replace(event, is_pending=False, not_before=world.clock() - timedelta(days=1))
        over = replace(over, not_after=over.not_before + timedelta(hours=2))
        world.cloud.scheduled = {agent.instance_id: [over]}
        await read(world)
    with pytest.raises(SecondKey):
        await Agent(world, agent.instance_id).claim()
    assert world.now(lease).state is LeaseState.READY


async def test_a_hub_without_the_permission_says_so_once_and_works(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    denied = CloudError("UnauthorizedOperation", "You are not authorized.", retryable=False)
    world.cloud.fail("scheduled_events", denied, times=100)
    with caplog.at_level(logging.WARNING):
        await world.ready(sleep=RESUME)
        await read(world)
        await read(world)
    said = [x for x in caplog.messages if "Scheduled events cannot be read" in x]
    assert len(said) == 1
    assert "configs/iam-policy.json" in said[0]


async def test_nothing_is_asked_without_instances(world: World) -> None:
    assert await world.provisioner._scheduled_events.refresh()
    assert not world.cloud.of("scheduled_events")
    lease, _ = await world.ready()
    await read(world)
    await world.stop(lease)
    assert len(world.cloud.of("scheduled_events")) == 1

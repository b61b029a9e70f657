"""Idle policies of running servers: what their users choose, and what the hub changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.config import validate_options
from ec2spawner.core.idle import stop_decision as idle
from ec2spawner.core.idle.policy import in_force
from ec2spawner.hub.spawn.idle_policy import follow_configuration
from ec2spawner.provisioner.lifecycle import heartbeat as heartbeat_module
from ec2spawner.provisioner.lifecycle.heartbeat import seconds_until_due
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.state.state import State
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import IdlePolicy, Stop, WorkingHours
from tests.unit.provisioner.world import Agent, World, until
from tests.virtual_time import virtual_loop

OPEN = IdlePolicy(
    server_seconds=3600, user_server_min_seconds=900, user_server_max_seconds=8 * 3600
)

T4 = {"display_name": "T4", "slug": "t4", "gpu": "T4"}


async def test_a_choice_is_bounded_stored_and_sent_at_once(world: World) -> None:
    lease, agent = await world.ready(idle=OPEN)
    heartbeats = world.provisioner._heartbeats
    state = (await agent.heartbeat(world.clock())).state
    held = asyncio.create_task(agent.heartbeat(world.clock(), hold=50.0, state_seen=state))
    await asyncio.sleep(0.05)
    answer = await heartbeats.choose_idle(world.now(lease), 7200)
    assert answer is not None
    assert (answer.idle.server_seconds, answer.bounded) == (7200, False)
    assert (await asyncio.wait_for(held, 60)).idle == answer.idle
    for asked, gets in ((1, 900), (10**6, 8 * 3600)):
        answer = await heartbeats.choose_idle(world.now(lease), asked)
        assert answer is not None
        assert (answer.idle.server_seconds, answer.bounded) == (gets, True)
    await world.kill()
    await world.restart()
    assert in_force(world.now(lease).idle).server_seconds == 8 * 3600
    assert world.now(lease).idle.server_seconds == 3600, "the admin's own is not lost"


async def test_repeated_choices_are_stored_at_a_limited_rate(world: World) -> None:
    """A user with root on an instance can send as many requests as they like."""
    lease, _ = await world.ready(idle=OPEN)
    heartbeats, contact = (
        world.provisioner._heartbeats,
        world.provisioner._state.leases.contact(lease.lease_id),
    )
    before, began = contact.state, asyncio.get_running_loop().time()
    asked = [
        asyncio.create_task(heartbeats.choose_idle(world.now(lease), 900 + number))
        for number in range(100)
    ]
    await asyncio.wait(asked, timeout=4.5 * heartbeat_module.CHOICE_PAUSE)
    took = asyncio.get_running_loop().time() - began
    assert 1 <= contact.state - before <= 1 + took / heartbeat_module.CHOICE_PAUSE
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_the_stop_comes_by_the_choice(world: World) -> None:
    lease, agent = await world.ready(idle=OPEN)
    await agent.heartbeat_often(1800)
    idle_since = world.clock()
    await world.provisioner._heartbeats.choose_idle(world.now(lease), 900)
    for _ in range(14):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(60)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert stop.reason == "idle"


@pytest.mark.parametrize("max_age", [0.0, 7200.0])
async def test_a_policy_without_bounds_leaves_no_choice(world: World, max_age: float) -> None:
    lease, _ = await world.ready(idle=IdlePolicy(max_age_seconds=max_age))
    assert await world.provisioner._heartbeats.choose_idle(world.now(lease), 60) is None
    assert world.now(lease).idle.user_server_seconds is None


async def test_max_age_bounds_a_choice_and_still_applies(world: World) -> None:
    lease, agent = await world.ready(idle=OPEN.model_copy(update={"max_age_seconds": 7200}))
    answer = await world.provisioner._heartbeats.choose_idle(world.now(lease), 8 * 3600)
    assert answer is not None
    assert (answer.idle.server_seconds, answer.bounded) == (7200, True)
    await agent.heartbeat_often(7199)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(1)
    stop = (await world.state(lease, LeaseState.ENDING)).stop
    assert stop is not None
    assert stop.reason == "max-age"


async def test_a_shorter_policy_applies_once_the_agent_has_confirmed_it(
    world: World,
) -> None:
    """Under the longer one it had no reason to report at once that somebody types."""
    lease, agent = await world.ready(idle=OPEN)
    await agent.heartbeat(world.clock())
    world.clock.advance(60)
    short = IdlePolicy(server_seconds=30)
    await world.provisioner._heartbeats.set_policy(world.now(lease), short)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    assert (await agent.heartbeat(world.clock() - timedelta(seconds=5))).idle == in_force(short)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(25)
    await world.state(lease, LeaseState.ENDING)


async def follow(world: World, lease: Lease, **configured: Any) -> None:
    """As after a restart of the hub with another configuration."""
    raw = {"region": "us-east-1", "subnets": ["subnet-1"], **configured}
    options = validate_options(raw, cleanup_servers=False, environ={})
    spawner = EC2Spawner(user=SimpleNamespace(name=lease.user, groups=[]))
    await follow_configuration(options, spawner, world.provisioner, world.now(lease))


async def test_a_server_follows_the_configuration_until_its_profile_is_removed(
    world: World,
) -> None:
    lease, _ = await world.ready(idle=OPEN)
    t4 = {**T4, "idle": {"server": "8h"}}
    await follow(world, lease, profile_list=[t4])
    assert world.now(lease).idle.server_seconds == 8 * 3600
    await follow(world, lease, profile_list=[{**t4, "slug": "another"}], idle={"server": "10m"})
    assert world.now(lease).idle.server_seconds == 8 * 3600


async def test_a_function_that_fails_leaves_a_running_server_its_policy(world: World) -> None:
    """What it gave before may be what keeps the server on."""

    def fails(*_: Any) -> None:
        raise LookupError("no such role")

    lease, _ = await world.ready(idle=OPEN)
    changed: dict[str, Any] = {"profile_list": [T4], "idle": {"server": "3h"}}
    await follow(world, lease, **changed, idle_hook=fails)
    assert world.now(lease).idle == OPEN
    await follow(world, lease, **changed, idle_hook=lambda *_: {})
    assert world.now(lease).idle.server_seconds == 3 * 3600


async def test_new_bounds_hold_for_what_the_user_of_a_running_server_chose(world: World) -> None:
    lease, _ = await world.ready(idle=OPEN)
    await world.provisioner._heartbeats.choose_idle(world.now(lease), 1800)
    idle = {"server": "1h", "user_may_set": {"server": ["1s", "12s"]}}
    await follow(world, lease, profile_list=[T4], idle=idle)
    assert in_force(world.now(lease).idle).server_seconds == 12


async def test_reports_from_before_the_notebook_listened_do_not_count(world: World) -> None:
    """A boot may take longer than a server may be idle."""
    lease = await world.request(idle=IdlePolicy(server_seconds=60))
    [instance_id] = await world.boot()
    agent = Agent(world, instance_id)
    assert await agent.claim() is not None
    await agent.heartbeat(world.clock())
    world.clock.advance(120)
    await agent.event("ready")
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(60)
    await world.state(lease, LeaseState.ENDING)


async def test_hours_of_the_week_are_followed_by_the_hub(world: World) -> None:
    """The clock of these tests stands at noon of a Friday, in UTC."""
    assert (world.clock().weekday(), world.clock().hour) == (4, 12)
    hours = WorkingHours(
        days=[4], from_minute=0, to_minute=13 * 60, timezone="UTC", server_seconds=3 * 3600
    )
    policy = IdlePolicy(server_seconds=600, working_hours=hours)
    lease, agent = await world.ready(idle=policy)
    idle_since = world.clock()
    for _ in range(59):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    world.clock.advance(60)
    await world.state(lease, LeaseState.ENDING)
    await until(lambda: world.now(lease).stop is not None)


async def test_a_thousand_deadlines_are_computed_once_and_in_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hours of the week each takes a tenth of a millisecond, and every pass asks for all."""
    lease, _ = await world.ready()
    await world.provisioner._tasks.end()
    provisioner = world.provisioner
    registry, heartbeats = provisioner._state.leases, provisioner._heartbeats
    for number in range(1000):
        known = replace(world.now(lease), lease_id=f"lease-{number}")
        registry._leases[known.lease_id] = known
    reckoned, stop_at = Counter[int](), idle.stop_at

    def counted(*asked: Any) -> datetime | None:
        reckoned[virtual_loop().turns] += 1
        return stop_at(*asked)

    monkeypatch.setattr(idle, "stop_at", counted)
    await heartbeats.reconcile(world.clock())
    once = reckoned.total()
    assert once >= 1000
    assert max(reckoned.values()) <= 200
    seconds_until_due(provisioner._state)
    await heartbeats.reconcile(world.clock())
    assert reckoned.total() == once, "nothing is known that was not known then"
    registry.contact(lease.lease_id).idle_since = world.clock()
    seconds_until_due(provisioner._state)
    assert reckoned.total() == once + 1
    for number in range(1000):
        del registry._leases[f"lease-{number}"]


async def test_an_extension_during_a_pass_prevents_the_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.silence_agents()
    policy = IdlePolicy(server_seconds=120)
    servers = [await world.ready(user, idle=policy) for user in ("ada", "bea")]
    for _, agent in servers:
        await agent.heartbeat(world.clock())
    end, other = State.end, servers[1][0]

    async def end_while_another_extends(state: State, lease_id: str, stop: Stop) -> None:
        await world.provisioner._heartbeats.extend(world.now(other), 3600)
        await end(state, lease_id, stop)

    monkeypatch.setattr(State, "end", end_while_another_extends)
    world.clock.advance(121)
    await world.state(servers[0][0], LeaseState.ENDING, LeaseState.ENDED)
    await world.complete_passes(1)
    assert world.now(other).state is LeaseState.READY


async def test_a_heartbeat_during_a_pass_prevents_the_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.silence_agents()
    servers = [await world.ready(user) for user in ("ada", "bea")]
    end, other = State.end, servers[1][0]

    async def end_while_another_is_heard(state: State, lease_id: str, stop: Stop) -> None:
        world.provisioner._heartbeats.heard(other.lease_id)
        await end(state, lease_id, stop)

    monkeypatch.setattr(State, "end", end_while_another_is_heard)
    world.clock.advance(world.settings.agent_silent_after)
    assert (await world.stop_of(servers[0][0])).message == "The instance fell silent"
    await world.complete_passes(1)
    assert world.now(other).state is LeaseState.READY

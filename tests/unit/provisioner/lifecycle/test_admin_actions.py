"""What an admin does to another user's server: keep it, and show a message there."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from ec2spawner.provisioner.lifecycle.admin_actions import AdminActions, MessageRefused
from ec2spawner.provisioner.lifecycle.heartbeat import MESSAGE_SECONDS
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.wire import MAX_MESSAGE_LENGTH, IdlePolicy
from tests.bare_state import bare_state
from tests.stored import NOW
from tests.stored import lease as stored_lease
from tests.unit.provisioner.world import World

SHORT = IdlePolicy(server_seconds=3600, user_may_extend_seconds=600)


async def test_a_message_is_the_answer_to_the_held_heartbeat(world: World) -> None:
    lease, agent = await world.ready()
    state = (await agent.heartbeat(world.clock())).state
    held = asyncio.create_task(agent.heartbeat(world.clock(), hold=50.0, state_seen=state))
    await asyncio.sleep(0.05)
    sent = world.provisioner.admin_actions.message(world.now(lease), "Stop\nby 18:00")
    assert sent.text == "Stop by 18:00"
    assert (await asyncio.wait_for(held, 60)).message == sent
    later = world.provisioner.admin_actions.message(world.now(lease), "Thanks")
    assert later.id != sent.id
    assert (await agent.heartbeat(None)).message == later


async def test_an_old_message_is_withdrawn(world: World) -> None:
    lease, agent = await world.ready()
    world.provisioner.admin_actions.message(world.now(lease), "Stop by 18:00")
    await agent.heartbeat_often(MESSAGE_SECONDS + 60)
    assert (await agent.heartbeat(None)).message is None


async def test_who_keeps_a_server_longer_is_who_keeps_it(world: World) -> None:
    lease, _ = await world.ready(idle=SHORT)
    allowed = SHORT.user_may_extend_seconds
    await world.provisioner.admin_actions.keep(world.now(lease), allowed / 2, "bob")
    assert world.now(lease).extended_by == "bob"
    await world.provisioner.agents.extend(world.now(lease), allowed / 4)
    assert world.now(lease).extended_by == "bob", "it is kept no longer than before"
    await world.provisioner.agents.extend(world.now(lease), allowed)
    assert world.now(lease).extended_by == ""


async def test_an_admin_keeps_a_server_beyond_what_its_user_may(world: World) -> None:
    world.silence_agents()
    lease, agent = await world.ready(idle=SHORT)
    idle_since = world.clock()
    until = await world.provisioner.admin_actions.keep(world.now(lease), 4 * 3600, "bob")
    assert until == world.clock() + timedelta(hours=4)
    shorter = await world.provisioner.admin_actions.keep(world.now(lease), 60, "cid")
    assert shorter == until, "never less than before"
    assert world.now(lease).extended_by == "bob"
    assert (await agent.heartbeat(idle_since)).extended_by == "bob"
    for _ in range(3 * 60):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    await world.complete_passes(2)
    assert world.now(lease).state is LeaseState.READY
    for _ in range(65):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    await world.complete_passes(2)
    assert world.now(lease).state is not LeaseState.READY


@given(text=st.text(max_size=300))
@example("\x1b[31mred\x1b[0m \u202e")
@example("x" * (MAX_MESSAGE_LENGTH + 1))
@example(" \n ")
def test_a_message_is_printable_bounded_and_in_one_line(text: str) -> None:
    actions = AdminActions(
        bare_state(Settings(hub="demo", region="us-east-1", subnets=()), lambda: NOW)
    )
    try:
        sent = actions.message(stored_lease(), text)
    except MessageRefused:
        return
    assert sent.text.isprintable()
    assert 0 < len(sent.text) <= MAX_MESSAGE_LENGTH

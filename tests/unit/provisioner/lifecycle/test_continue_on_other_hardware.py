"""A running server continues on hardware that its user has chosen."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.names import lease_id as new_lease_id
from ec2spawner.core.sleep.continuation import TakenOver
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.provisioner.lifecycle.server_moves import CannotMove
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import IdlePolicy, Market
from tests.unit.provisioner.costs import paid_for_nothing
from tests.unit.provisioner.lifecycle.test_continuation import RESUME, boot_for, notice
from tests.unit.provisioner.world import SPEC, World, until


async def continues_on(
    world: World, lease: Lease, instance_type: str = "g5.xlarge", profile: str = "a10g"
) -> Lease:
    """Its user continues on another instance type."""
    spec = replace(SPEC, instance_types=(instance_type,))
    found = replace(
        lease,
        lease_id=new_lease_id(),
        profile=profile,
        spec=spec,
        launch_key=launch_key_of(spec),
        state=LeaseState.WAITING,
        requested_at=world.clock(),
        instance_id=None,
        token_sha256="",
        segments=(),
        ready_at=None,
        attempts=(),
        continues=lease.lease_id,
        taken_over=TakenOver(trigger="hardware"),
    )
    await world.provisioner.moves.begin(found)
    return found


@pytest.mark.parametrize(("reason", "payers"), [("lost", {"ada"}), ("admin", {""})])
async def test_what_was_bought_for_a_move_is_paid_by_who_ended_the_server(
    priced: World, reason: Any, payers: set[str]
) -> None:
    lease, agent = await priced.ready()
    await continues_on(priced, lease)
    await priced.boot(2)
    priced.silence_agents()
    async with priced.no_pass:  # which would begin the move
        priced.clock.advance(60)
        await priced.stop(lease, reason)
    await until(lambda: not priced.cloud.running(), "the end of both")
    assert agent.instance_id not in priced.cloud.running()
    assert await paid_for_nothing(priced) == payers


@pytest.mark.parametrize("save_seconds", [0.0, 300.0])
async def test_a_server_moves_once_the_other_instance_has_booted(
    world: World, save_seconds: float
) -> None:
    lease, agent = await world.ready(sleep=SleepRules(save_seconds=save_seconds))
    found = await continues_on(world, lease)
    other = await boot_for(world, lease)
    assert world.now(lease).state is LeaseState.READY
    assert world.provisioner.moves.last("ada", "") == world.now(found)
    serving = asyncio.create_task(other.serve())

    stopping = await world.state(lease, LeaseState.ENDING)

    assert stopping.stop is not None
    assert stopping.stop.sleep == "hardware"
    assert stopping.stop.save_seconds == save_seconds
    assert world.provisioner.moves.is_continued(stopping)
    assert world.provisioner.moves.has_left(found)
    await agent.event("stopped")
    await serving
    await world.state(lease, LeaseState.ENDED)
    ready = await world.state(found, LeaseState.READY)
    assert ready.taken_over.trigger == "hardware"
    assert world.provisioner.moves.last("ada", "") is None
    await until(lambda: world.cloud.running() == [other.instance_id], "the old one ended")


@pytest.mark.parametrize("save_seconds", [0.0, 300.0])
async def test_a_hub_killed_before_it_stored_that_the_successor_takes_over(
    world: World, save_seconds: float
) -> None:
    lease, agent = await world.ready(sleep=SleepRules(save_seconds=save_seconds))
    await agent.heartbeat_often(3600.0)
    found = await continues_on(world, lease)
    other = await boot_for(world, lease)
    claim = asyncio.create_task(other.claim())
    await world.state(lease, LeaseState.ENDING)
    claim.cancel()
    await world.kill()
    world.run_sql(  # as if the process had ended before the pass that stores it
        f'UPDATE lease SET taken_over = \'{{"trigger": "hardware"}}\''
        f" WHERE lease_id = '{found.lease_id}'"
    )
    await world.start()
    await agent.event("stopped")

    await other.serve()

    assert world.now(found).state is LeaseState.READY
    assert world.now(found).taken_over.ran_seconds == pytest.approx(3600, abs=10)
    await until(lambda: world.cloud.running() == [other.instance_id], "one instance")


async def test_the_idle_limit_that_was_asked_for_with_the_move_holds(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME, idle=IdlePolicy(server_seconds=3600.0))
    asked = replace(lease, idle=IdlePolicy(server_seconds=600.0))
    found = await continues_on(world, asked, profile=lease.profile)
    other = await boot_for(world, lease)
    serving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await agent.event("stopped")
    await serving
    assert world.now(found).idle.server_seconds == 600.0


async def test_hardware_that_cannot_be_had_changes_nothing(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    for market in Market:
        world.cloud.sell_out(market, "g5.xlarge")
    found = await continues_on(world, lease)
    await world.state(found, LeaseState.ENDED)
    await world.complete_passes(2)
    await agent.heartbeat()

    assert world.now(lease).state is LeaseState.READY
    last = world.provisioner.moves.last("ada", "")
    assert last is not None
    assert last.stop is not None
    assert last.stop.reason == "capacity"
    assert "there was no other" not in last.stop.message

    # And an interruption after that continues it, as if nothing had been tried.
    await notice(world, agent)
    await boot_for(world, lease)


async def test_only_one_move_at_a_time(world: World) -> None:
    lease, _ = await world.ready(sleep=RESUME)
    await continues_on(world, lease)
    with pytest.raises(CannotMove):
        await continues_on(world, lease)


async def test_a_server_that_stops_while_other_hardware_boots(world: World) -> None:
    lease, agent = await world.ready(sleep=RESUME)
    found = await continues_on(world, lease)
    await boot_for(world, lease)
    await world.stop(lease)
    await agent.event("stopped")
    await world.state(lease, LeaseState.ENDED)
    await world.state(found, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [], "no instance is left")


async def test_other_hardware_is_admitted_as_a_start(world: World) -> None:
    await world.restart(limits=Limits(Bounds(servers=1)))
    lease, _ = await world.ready(sleep=RESUME)
    await continues_on(world, lease)  # it replaces the server

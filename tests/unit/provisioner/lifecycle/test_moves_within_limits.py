"""Limits and servers that move: both instances cost, and it is one server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.limits.bounds import AtLimit, Bounds, Kind, Limits
from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.core.sleep.continuation import TakenOver
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.limits.waiting_starts import WaitingStarts
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.lifecycle.test_continuation import (
    RESUME,
    boot_for,
    notice,
    successor,
)
from tests.unit.provisioner.lifecycle.test_continue_on_other_hardware import continues_on
from tests.unit.provisioner.world import SPEC, World, until

SPOT_ONLY = replace(SPEC, markets=(Market.SPOT,))


async def limited(world: World, user: Bounds | None = None, hub: Bounds | None = None) -> None:
    """The hub again, with these limits and known prices."""
    await world.restart(limits=Limits(user or Bounds(), {"hub": hub} if hub else {}))
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.settle()


async def used(world: World) -> dict[Kind, int]:
    """What the hub's users see of its limits, and what admission judges by."""
    [account] = world.provisioner.admission.preview("eve", "", "").of_scopes
    shown = {
        x.standing.kind: x.standing.used for x in await world.provisioner.overview.limits(["hub"])
    }
    assert shown == {Kind.RATE: account.rate, Kind.SERVERS: account.servers}
    return shown


async def test_both_instances_of_a_server_that_moves_cost(priced: World) -> None:
    world = priced
    await limited(world, hub=Bounds(usd_per_hour=0.5, servers=2))
    lease, agent = await world.ready(sleep=RESUME)
    assert await used(world) == {Kind.RATE: 200_000_000, Kind.SERVERS: 1}
    await notice(world, agent)
    other = await boot_for(world, lease)
    serving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await until(lambda: successor(world, lease).segments, "the claim of the other instance")

    assert await used(world) == {Kind.RATE: 400_000_000, Kind.SERVERS: 1}
    with pytest.raises(LimitReached) as refused:
        await world.request("bob", spec=SPOT_ONLY)
    assert (refused.value.refusal.kind, refused.value.refusal.left) == (Kind.RATE, 100_000_000)

    await agent.event("stopped")
    await serving
    world.cloud.end(agent.instance_id)
    await world.state(lease, LeaseState.ENDED)
    assert await used(world) == {Kind.RATE: 200_000_000, Kind.SERVERS: 1}


async def test_what_a_server_leaves_does_not_refuse_its_move(priced: World) -> None:
    world = priced
    await limited(world, Bounds(usd_per_hour=1.1, servers=1))
    lease, _ = await world.ready(sleep=RESUME)

    await continues_on(world, lease)  # at 1.006 USD/hour

    assert successor(world, lease).state is LeaseState.WAITING


@pytest.mark.parametrize(("at_limit", "reason"), [(AtLimit.WARN, None), (AtLimit.STOP, "budget")])
async def test_a_limit_that_only_warns_lets_a_server_continue(
    priced: World, at_limit: AtLimit, reason: str | None
) -> None:
    """It waits for spot meanwhile: a limit ends starts that wait."""
    world = priced
    wait = Wait(world.clock() + timedelta(hours=9), (Market.ON_DEMAND,))
    lease, agent = await world.ready(sleep=RESUME, spec=SPOT_ONLY, wait=wait)
    await agent.heartbeat_often(3600.0)
    await limited(world, Bounds(usd_per_month=0.1, at_limit=at_limit))
    world.cloud.sell_out(Market.SPOT, SPEC.instance_types[0])
    world.cloud.end(lease.instance_id or "", SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)

    for _ in range(3):
        world.clock.advance(10.0)
        await world.complete_passes(1)

    stop = successor(world, lease).stop
    assert (stop and stop.reason) == reason
    assert stop is None or "no other" not in stop.message


async def test_a_move_to_other_hardware_that_waits_is_refused_as_a_start(priced: World) -> None:
    """Otherwise it would begin on a machine that nothing is left for."""
    world = priced
    await limited(world, Bounds(usd_per_month=1000.0, at_limit=AtLimit.WARN))
    lease, agent = await world.ready(sleep=RESUME)
    waiting = WaitingStarts(world.provisioner._state, world.provisioner.market)
    await notice(world, agent)
    await boot_for(world, lease)
    reclaimed = successor(world, lease)
    moved = replace(reclaimed, taken_over=TakenOver(trigger="hardware"))
    assert [waiting._ends(each, "user:ada") for each in (reclaimed, moved)] == [False, True]


async def test_a_limit_that_is_reached_while_a_server_moves_ends_both(priced: World) -> None:
    world = priced
    lease, agent = await world.ready(sleep=RESUME)
    await agent.heartbeat_often(3600.0)
    found = await continues_on(world, lease)
    await boot_for(world, lease)
    await limited(world, Bounds(usd_per_month=0.1))
    for _ in range(2):  # the stop is announced, and then its grace is over
        await world.watch_passes(1)
        world.clock.advance(world.settings.limits.grace_seconds + 1)
        await agent.heartbeat()

    stopping = await world.state(lease, LeaseState.ENDING)
    assert stopping.stop is not None
    assert stopping.stop.reason == "budget"
    assert not world.provisioner.moves.is_continued(stopping)
    await agent.event("stopped")
    await world.state(found, LeaseState.ENDED)
    await until(lambda: world.cloud.running() == [], "no instance is left")

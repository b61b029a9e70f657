"""Since when a price holds: since EC2's history says, whenever the hub reads it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.cost import nano_usd
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.costs import SPOT, spent
from tests.unit.provisioner.world import World, until


def price_history(world: World, *points: tuple[float, float]) -> None:
    """Spot prices from so many seconds after now on, which EC2 shows from then on."""
    history = tuple(PricePoint(world.clock() + timedelta(seconds=s), usd) for s, usd in points)
    world.cloud.histories = dict.fromkeys(SPOT, history)


async def priced_since_a_week(world: World, *points: tuple[float, float]) -> None:
    price_history(world, (-9 * 86400, 0.20), *points)
    await world.restart()
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    await world.settle()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_spot_price_holds_since_ec2_says_and_not_since_it_was_read(
    world: World, is_killed: bool
) -> None:
    await priced_since_a_week(world, (1200, 2.0))
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    if is_killed:
        await world.kill()
    world.clock.advance(3600)
    if is_killed:
        await world.start()
    await agent.heartbeat()
    due = (0.20 * 1200 + 2.0 * 2400) / 3600
    await until(lambda: len(world.now(lease).segments) == 2, "the rise")
    assert spent(world, "user:ada").usd == pytest.approx(due, rel=0.001)
    await world.complete_passes(1)
    [stored] = [x for x in (await world.store.load()).leases if x.lease_id == lease.lease_id]
    assert nano_usd(stored.segments, world.clock()) == pytest.approx(due * 1e9, rel=0.001)


async def test_a_lease_that_ends_before_a_rise_is_read_pays_it(world: World) -> None:
    world.silence_agents()
    await priced_since_a_week(world, (1200, 2.0))
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    await world.complete_passes(1)
    before, gate = len(world.cloud.of("spot_history")), world.cloud.hold("spot_history")
    await until(lambda: len(world.cloud.of("spot_history")) > before, "a reading that takes long")
    world.clock.advance(1800)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    gate.set()
    due = (0.20 * 1200 + 2.0 * 600) / 3600
    await until(lambda: spent(world, "user:ada").usd == pytest.approx(due, rel=0.001), "the rise")
    await until(lambda: not world.store.write_behind._writes, "it is stored")
    await world.restart()
    assert spent(world, "user:ada").usd == pytest.approx(due, rel=0.001)


async def test_a_lease_that_ends_in_a_hubs_first_seconds_pays_what_rose_before(
    world: World,
) -> None:
    await priced_since_a_week(world, (1200, 2.0))
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    await world.stop(lease)
    await world.kill()
    world.clock.advance(3600)
    await world.start(stop_timeout=0.0)
    ended = await world.state(lease, LeaseState.ENDED)
    due = (0.20 * 1200 + 2.0 * 2400) / 3600
    assert nano_usd(ended.segments, world.clock()) == pytest.approx(due * 1e9, rel=0.001)


async def test_prices_of_what_no_profile_names_any_more_are_read(world: World) -> None:
    await priced_since_a_week(world, (1200, 2.0))
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    await world.kill()
    world.clock.advance(3600)
    await world.start(want_types=())
    await agent.heartbeat()
    await until(lambda: len(world.now(lease).segments) == 2, "the rise")
    assert spent(world, "user:ada").usd == pytest.approx(
        (0.2 * 1200 + 2.0 * 2400) / 3600, rel=0.001
    )


async def test_a_lease_has_not_ended_while_prices_are_awaited(world: World) -> None:
    await priced_since_a_week(world, (1200, 2.0))
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    await world.stop(lease)
    await world.kill()
    gate = world.cloud.hold("spot_history")
    await world.start(stop_timeout=0.0)
    for _ in range(8):  # less than `LONGEST_WAIT`, and longer than listing and pass take
        await asyncio.sleep(1.0)
        assert world.now(lease).state is not LeaseState.ENDED
    world.clock.advance(8)
    gate.set()
    ended = await world.state(lease, LeaseState.ENDED)
    assert ended.ended_at == world.clock()


async def test_the_price_of_an_earlier_instance_that_ec2_lists_late_is_counted(
    world: World,
) -> None:
    """The instance of the lease was replaced by one in another zone."""
    await priced_since_a_week(world)
    lease, agent = await world.ready("ada")
    await agent.heartbeat()
    [segment] = world.now(lease).segments
    begin, hour = segment.start, timedelta(hours=1)
    [before] = [key for key in SPOT if key[1] != segment.zone]
    earlier = replace(
        segment, instance_id="i-before", zone=before[1], start=begin - hour, end=begin
    )
    world.provisioner._state.leases.remember(lease.lease_id, segments=(earlier, segment))
    await world.complete_passes(2)
    late = PricePoint(begin - hour / 2, 2.0)
    histories = world.cloud.histories
    world.cloud.histories = {**histories, before: (*histories[before], late)}
    await world.provisioner.market.prices.refresh()
    await world.complete_passes(1)
    found = [each.usd_per_hour for each in world.now(lease).segments]
    assert found == [0.20, 2.0, 0.20]

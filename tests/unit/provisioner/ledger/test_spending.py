"""What a user has spent today and in this month: over all servers, days, and lives of the hub."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import ANY

import pytest

from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState, Snapshot
from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH
from tests.unit.provisioner.costs import SPOT, forget, served
from tests.unit.provisioner.world import World, until

CENT = pytest.approx


def _midnight(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


async def test_only_servers_of_the_user_count(priced: World) -> None:
    priced.silence_agents()
    world = priced
    await served(world, "ada", 3600)
    await served(world, "bob", 7200)
    await forget(world)
    await served(world, "ada", 1800, "second")
    _, agent = await world.ready("ada", server="third")
    await agent.heartbeat_often(900)
    cost = (await agent.heartbeat()).cost
    assert cost.usd == CENT(0.05, abs=1e-3)
    assert cost.today_usd == cost.month_usd == CENT(0.35, abs=1e-3)
    assert cost.budget_usd is None


async def test_spending_survives_eviction_of_a_lease_and_a_restart(
    priced: World,
) -> None:
    priced.silence_agents()
    world = priced
    await served(world, "ada", 3600)
    running, agent = await world.ready("ada", server="second")
    await agent.heartbeat_often(600)
    before = (await agent.heartbeat()).cost
    await world.restart()
    await world.complete_passes(1)
    assert (await agent.heartbeat()).cost == before.model_copy(update={"price_source": ANY})
    await forget(world)
    await world.stop(running)
    agent.lease = None
    await world.restart()
    await world.complete_passes(2)
    await forget(world)
    spent = world.provisioner._state.spending.of("ada", world.provisioner._state.leases)
    assert spent.today == spent.month
    assert spent.today == CENT(0.20 + 0.20 * (600 + 660) / 3600, abs=1e-3)


async def test_days_and_months_end_at_midnight_utc(priced: World) -> None:
    priced.silence_agents()
    world = priced
    await served(world, "ada", 3600)  # on the 20th
    await forget(world)
    _, agent = await world.ready("ada", server="second")
    tomorrow = _midnight(world.clock()) + timedelta(days=1)
    await agent.heartbeat_often((tomorrow - world.clock()).total_seconds() + 3600, every=1800)
    cost = (await agent.heartbeat()).cost
    assert cost.usd == CENT(0.20 * (12 - 660 / 3600), abs=5e-3)
    assert cost.today_usd == CENT(0.20, abs=1e-3)
    assert cost.month_usd == CENT(0.20 * (13 - 660 / 3600), abs=5e-3)
    december = tomorrow.replace(month=12, day=1)
    await agent.heartbeat_often((december - world.clock()).total_seconds() + 7200, every=7200)
    cost = (await agent.heartbeat()).cost
    assert cost.today_usd == cost.month_usd == CENT(0.40, abs=1e-3)
    await world.restart()
    await world.complete_passes(1)
    again = (await agent.heartbeat()).cost
    assert (again.today_usd, again.month_usd) == (cost.today_usd, cost.month_usd)


async def test_an_unknown_price_makes_its_day_and_month_unknown(world: World) -> None:
    world.silence_agents()
    await served(world, "ada", 3600)
    await forget(world)
    world.cloud.prices = dict(SPOT)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    _, agent = await world.ready("ada")
    cost = (await agent.heartbeat()).cost
    assert cost.usd is not None
    assert (cost.today_usd, cost.month_usd) == (None, None)
    world.clock.advance(86400)
    cost = (await agent.heartbeat()).cost
    assert cost.today_usd == CENT(0.20 * 13.18, abs=0.01), "that was yesterday"
    assert cost.month_usd is None


async def test_spot_savings_are_sent_with_every_heartbeat(priced: World) -> None:
    world = priced
    first, agent = await world.ready("ada")
    await agent.heartbeat_often(1800)
    await world.complete_passes(1)  # one that began before would date the price back
    world.cloud.prices = dict.fromkeys(SPOT, 0.5)
    await until(lambda: len(world.now(first).segments) == 2, "the new price")
    await agent.heartbeat_often(1800)
    cost = (await agent.heartbeat()).cost
    assert cost.saved_usd == CENT(0.526 - 0.35, abs=1e-3)
    assert cost.usd == CENT(0.35, abs=1e-3)
    await world.complete_passes(1)
    await world.restart()
    assert (await agent.heartbeat()).cost.saved_usd == CENT(cost.saved_usd, abs=1e-9)


async def test_the_counter_of_this_process_grows_with_observed_spending(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(3600)
    account, registry = world.provisioner._state.spending, world.provisioner._state.leases
    assert account.since_begin(registry) == CENT(0.20, abs=1e-3)
    await world.restart()
    account, registry = world.provisioner._state.spending, world.provisioner._state.leases
    assert account.since_begin(registry) == CENT(0, abs=1e-6), "another process has counted that"
    await agent.heartbeat_often(1800)
    assert account.since_begin(registry) == CENT(0.10, abs=1e-3)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    world.clock.jump(-7200)
    assert account.since_begin(registry) >= 0.0999, "a clock that is set takes nothing back"


async def test_ended_leases_are_forgotten_in_batches_and_stay_in_all_sums(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    like, _ = await priced.ready("ada")
    state, now = priced.provisioner._state, priced.clock()
    begun, ended = now - timedelta(hours=3), now - timedelta(hours=1)
    segment = replace(priced.now(like).segments[0], start=begun, end=ended)
    ended_leases = [
        replace(
            priced.now(like),
            lease_id=f"lease-{number}",
            user="bob",
            state=LeaseState.ENDED,
            ended_at=ended,
            segments=(replace(segment, instance_id=f"i-{number}"),),
        )
        for number in range(4 * BATCH)
    ]
    state.leases.load(Snapshot(leases=tuple(ended_leases)))
    expected = state.spending.of("bob", state.leases)
    left, forgetting, ended_before = [4 * BATCH], asyncio.Event(), state.leases.ended_before

    def begin(before: datetime) -> list[Lease]:
        forgetting.set()
        return ended_before(before)

    monkeypatch.setattr(state.leases, "ended_before", begin)
    state.wake()
    await forgetting.wait()
    while left[-1]:
        left.append(sum(lease.user == "bob" for lease in state.leases.in_memory()))
        assert left[-2] - left[-1] <= BATCH
        assert state.spending.of("bob", state.leases) == expected
        await asyncio.sleep(0)

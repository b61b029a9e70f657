"""Costs of what has ended and of what runs, as one sum; and idle periods, replayed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.ledger import exact
from ec2spawner.core.ledger.cost_rows import CostSum, Dimension
from ec2spawner.core.ledger.segments import close
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.usage import PART
from ec2spawner.wire import IdlePolicy
from tests.unit.provisioner.world import World, until
from tests.virtual_time import virtual_loop

DAY = timedelta(days=1)


@contextlib.contextmanager
def locked(world: World) -> Iterator[None]:
    """Another program holds the database: nothing can be written."""
    path = world.folder / world.database
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def test_a_running_server_costs_as_much_before_and_after_it_ends(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await world.ready("bob")
    await agent.heartbeat_often(3 * 3600)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    by = (Dimension.USER, Dimension.PROFILE)
    running = {each.key: each for each in await usage.costs(today - DAY, today, by)}
    assert {user for user, _ in running} >= {"ada", "bob"}
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    ended = {each.key: each for each in await usage.costs(today - DAY, today, by)}
    of_ada = next(key for key in ended if key[0] == "ada")
    assert ended[of_ada].nano_usd >= running[of_ada].nano_usd > 0
    assert ended[of_ada].nano_usd < 1.01 * running[of_ada].nano_usd + exact.NANO / 1000
    [only] = await usage.costs(today - DAY, today, (), {Dimension.USER: ["ada"]})
    assert only.nano_usd == ended[of_ada].nano_usd
    assert await usage.costs(today - 60 * DAY, today - 30 * DAY, by) == ()


async def test_a_server_whose_end_is_not_stored_yet_is_counted_once(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(3600)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    only = {Dimension.USER: ["ada"]}
    [running] = await usage.costs(today - DAY, today, (), only)
    with locked(world):
        await world.stop(lease)
        await world.state(lease, LeaseState.ENDED)
        [pending] = await usage.costs(today - DAY, today, (), only)
        assert usage.store.write_behind.is_pending(lease.lease_id)
    await world.complete_passes(2)
    assert not usage.store.write_behind.is_pending(lease.lease_id)
    [stored] = await usage.costs(today - DAY, today, (), only)
    assert pending == stored
    assert stored.nano_usd >= running.nano_usd > 0


async def test_a_server_that_ends_during_the_read_is_counted_once(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(3600)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    reads = [
        asyncio.create_task(usage.costs(today - 200 * DAY, today, (), {Dimension.USER: ["ada"]}))
        for _ in range(3)
    ]
    await asyncio.sleep(0)  # the first reads are under way
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    sums = [only for [only] in await asyncio.gather(*reads)]
    [after] = await usage.costs(today - DAY, today, (), {Dimension.USER: ["ada"]})
    for each in sums:
        assert 0 < each.nano_usd <= after.nano_usd < 1.1 * each.nano_usd


async def test_only_what_has_ended_is_left_out_of_the_stores_sums(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand ids in each query take longer than the query itself."""
    priced.silence_agents()
    world, left_out = priced, list[list[str]]()
    costs = world.store.ledger.costs

    async def noted(*arguments: Any) -> Sequence[CostSum]:
        left_out.append(sorted(arguments[4]))
        return await costs(*arguments)

    monkeypatch.setattr(world.store.ledger, "costs", noted)
    lease, _ = await world.ready("ada")
    await world.ready("bob")
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    await usage.costs(today, today, ())
    with locked(world):
        await world.stop(lease)
        await world.state(lease, LeaseState.ENDED)
        await usage.costs(today, today, ())
    assert left_out == [[], [lease.lease_id]]


@pytest.mark.parametrize("parts", [1, 2])
async def test_an_end_that_is_written_between_two_reads_or_after_them_counts_once(
    priced: World, parts: int
) -> None:
    """The first read holds the store until the server has ended in memory and its write waits: the
    cost of today is then in the read before that write, or in the one after it."""
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(3600)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    # Sums by server have no totals, and are read in parts.
    first, by = today - (parts - 1) * PART, (Dimension.SERVER, Dimension.USER)
    leases = world.provisioner._state.leases
    virtual_loop().hold_work()
    reading = asyncio.create_task(usage.costs(first, today, by))
    await asyncio.sleep(0)  # its first read waits for the store
    now, segments = world.clock(), close(world.now(lease).segments, world.clock())
    ended = {"state": LeaseState.ENDED, "ended_at": now, "segments": segments}
    end = asyncio.create_task(leases.change(lease.lease_id, **ended))
    await until(lambda: world.now(lease).state is LeaseState.ENDED, "the end in memory")
    await until(lambda: usage.store.write_behind._in_progress, "its write, which waits")
    virtual_loop().continue_work()
    found = {each.key: each for each in await reading}
    await end
    after = {each.key: each for each in await usage.costs(first, today, by)}
    assert found["", "ada"] == after["", "ada"]
    assert found["", "ada"].nano_usd > 0


async def test_a_long_range_is_the_sum_of_its_days(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada")
    await agent.heartbeat_often(30 * 3600, every=600)
    await world.stop(lease)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    days = list(await usage.costs(today - 35 * DAY, today, (Dimension.DAY,)))
    [whole] = await usage.costs(today - 35 * DAY, today, ())
    assert len(days) >= 2
    assert sum(each.nano_usd for each in days) == whole.nano_usd


async def test_an_idle_stop_counts_as_saved(priced: World) -> None:
    priced.silence_agents()
    world = priced
    lease, agent = await world.ready("ada", idle=IdlePolicy(server_seconds=3600))
    idle_since = world.clock()
    for _ in range(62):
        world.clock.advance(60)
        await agent.heartbeat(idle_since)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    world.clock.advance(2 * 3600)
    usage, today = world.provisioner.usage, world.provisioner.usage.today()
    found = await usage.idle_savings(today - DAY, today, timedelta(minutes=45))
    assert (found.sessions, found.idle_stops) == (1, 1)
    limits = [each.limit.total_seconds() / 60 for each in found.replays]
    assert limits == [120, 60, 45, 30, 15, 5]
    price = lease_price(world)
    assert abs(found.stops_saved_usd - 2 * price) < 0.1 * price
    half = next(each for each in found.replays if each.limit == timedelta(minutes=30))
    assert abs(half.saved_usd - price / 2) < 0.1 * price
    assert half.stops == 1


def lease_price(world: World) -> float:
    [ended] = world.provisioner._state.leases.ended_since(world.clock() - DAY)
    assert ended.segments[0].usd_per_hour is not None
    return ended.segments[0].usd_per_hour

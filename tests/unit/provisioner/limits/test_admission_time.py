"""How long a start's admission and a scrape of the metrics take among a thousand servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.amount import assumed_by_day
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState, Snapshot
from ec2spawner.provisioner.runtime.cooperative_iteration import BATCH
from ec2spawner.wire import Market
from tests.unit.provisioner.world import World, until
from tests.virtual_time import virtual_loop

SERVERS = 1000
CALLS = 20
DAY = 86_400.0
SPOT = {("g4dn.xlarge", "us-east-1a"): 0.20, ("g4dn.xlarge", "us-east-1b"): 0.20}
EVERY = Bounds(usd_per_month=1e6, usd_per_hour=1e6, servers=5000)


def seconds(work: Callable[[], object], calls: int = CALLS) -> float:
    """CPU time of a call, the median of some."""
    taken = []
    for _ in range(calls):
        begun = time.thread_time()
        work()
        taken.append(time.thread_time() - begun)
    return sorted(taken)[calls // 2]


def running(like: Lease, world: World, parts: int) -> list[Lease]:
    """Servers of as many users, five of a group, for minutes to days and at some prices each."""
    now = world.clock()
    return [
        replace(
            like,
            lease_id=f"lease-{number}",
            user=f"user-{number}",
            payer="group:lab" if number % 200 == 0 else "",
            state=LeaseState.READY,
            segments=tuple(
                Segment(
                    f"i-{number}",
                    Market.SPOT,
                    0.2 + part / 100,
                    now - timedelta(minutes=3 * number + 10 * (parts - part)),
                    None
                    if part == parts - 1
                    else now - timedelta(minutes=3 * number + 10 * (parts - 1 - part)),
                    gpus=1.0,
                    on_demand_usd_per_hour=0.526,
                )
                for part in range(parts)
            ),
        )
        for number in range(SERVERS)
    ]


async def populated(world: World, parts: int) -> tuple[Lease, float]:
    """A start in a world with limits of the user, the payer and the hub, and what it takes to sum
    up all servers once. Until something is awaited, no pass sees these servers."""
    world.cloud.prices = dict(SPOT)
    limits = Limits(EVERY, {"hub": EVERY, "group:lab": EVERY})
    await world.restart(limits=limits, spending_days=31)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    like = await world.request("new", payer="group:lab")
    leases, place = running(like, world, parts), world.settings.time_zone
    world.provisioner._state.leases.load(Snapshot(leases=tuple(leases)))
    now = world.clock()
    return like, seconds(lambda: [assumed_by_day(x.segments, now, place) for x in leases], 5)


@pytest.mark.long
@pytest.mark.parametrize("parts", [3, 8])
async def test_an_admission_among_a_thousand_servers_is_faster_than_summing_them_up(
    world: World, parts: int
) -> None:
    like, baseline = await populated(world, parts)
    admission = world.provisioner.admission

    def admit() -> None:
        world.clock.advance(0.5)
        admission.admit(like)

    taken = seconds(admit)
    print(f"{1000 * taken:.1f} ms for an admission, {1000 * baseline:.1f} ms to sum up")
    assert taken < baseline / 3


@pytest.mark.long
async def test_an_admission_after_a_restart_at_midnight_or_after_heartbeats_sums_up_in_batches(
    world: World,
) -> None:
    like, baseline = await populated(world, 3)
    admission, registry = world.provisioner.admission, world.provisioner._state.leases

    async def admitted() -> float:
        await admission.prepare(like.spec.instance_types)
        return seconds(lambda: admission.admit(like), 1)

    def heartbeats() -> None:
        for number in range(SERVERS):
            registry.remember_with_next_change(f"lease-{number}", gpu_use=())

    after_restart = await admitted()
    world.clock.advance(DAY)
    after_midnight = await admitted()
    heartbeats()
    after_heartbeats = seconds(lambda: admission.admit(like), 1)
    found = [after_restart, after_midnight, after_heartbeats]
    print(*(f"{1000 * each:.1f}" for each in found), f"ms, {1000 * baseline:.1f} ms to sum up")
    assert max(found) < baseline / 3


@pytest.mark.long
@pytest.mark.parametrize("parts", [1, 4, 8])
async def test_a_scrape_is_faster_than_summing_up_a_thousand_servers(
    world: World, parts: int
) -> None:
    _, baseline = await populated(world, parts)
    state = world.provisioner._state
    await state.spending.count_leases(state.leases)

    def scrape() -> None:
        world.clock.advance(0.5)
        state.spending.since_begin(state.leases)

    taken = seconds(scrape)
    print(f"{1000 * taken:.1f} ms for the sum, {1000 * baseline:.1f} ms to sum up")
    assert taken < baseline / 3


async def test_a_start_lets_others_run_while_it_counts_the_servers_of_before(world: World) -> None:
    await world.restart(limits=Limits(EVERY), spending_days=31)
    like, registry = await world.request("new"), world.provisioner._state.leases
    registry.load(Snapshot(leases=tuple(running(like, world, 1))))
    start = replace(like, lease_id="another", user="another")
    request = asyncio.create_task(world.provisioner.request(start))
    turns = virtual_loop().turns
    await asyncio.sleep(0.001)  # what it does before it waits for the store
    assert virtual_loop().turns - turns >= SERVERS // BATCH
    await request

"""How long a start's admission takes among a thousand servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ec2spawner.core.ledger.amount import assumed_by_day
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.provisioner.model.lease import Lease, LeaseState, Snapshot
from ec2spawner.wire import Market
from tests.unit.provisioner.world import World, until

SERVERS = 1000
CALLS = 20
SPOT = {("g4dn.xlarge", "us-east-1a"): 0.20, ("g4dn.xlarge", "us-east-1b"): 0.20}


def seconds(work: Callable[[], object]) -> float:
    """CPU time of a call, the median of some."""
    taken = []
    for _ in range(CALLS):
        begun = time.thread_time()
        work()
        taken.append(time.thread_time() - begun)
    return sorted(taken)[CALLS // 2]


def running(like: Lease, world: World) -> list[Lease]:
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
                    now - timedelta(minutes=3 * number + 10 * (3 - part)),
                    None if part == 2 else now - timedelta(minutes=3 * number + 10 * (2 - part)),
                    gpus=1.0,
                    on_demand_usd_per_hour=0.526,
                )
                for part in range(3)
            ),
        )
        for number in range(SERVERS)
    ]


@pytest.mark.long
async def test_an_admission_among_a_thousand_servers_is_faster_than_summing_them_up(
    world: World,
) -> None:
    """Limits of the user, the payer and the hub; the baseline adds up all servers once."""
    every = Bounds(usd_per_month=1e6, usd_per_hour=1e6, servers=5000)
    world.cloud.prices = dict(SPOT)
    await world.restart(limits=Limits(every, {"hub": every, "group:lab": every}), spending_days=31)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    like = await world.request("new", payer="group:lab")
    state, admission = world.provisioner._state, world.provisioner.admission
    # From here on nothing is awaited: no pass sees these servers.
    leases = running(like, world)
    state.leases.load(Snapshot(leases=tuple(leases)))
    place = world.settings.time_zone
    baseline = seconds(lambda: [assumed_by_day(x.segments, world.clock(), place) for x in leases])

    def admit() -> None:
        world.clock.advance(0.5)
        admission.admit(like)

    taken = seconds(admit)
    print(f"{1000 * taken:.1f} ms for an admission, {1000 * baseline:.1f} ms to sum up")
    assert taken < baseline / 3

"""What a server's workers cost, as its agent gets to know it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.pages.stop_choice import stop_choice
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.lease import OPEN, Lease, LeaseState
from ec2spawner.wire import Cost
from tests.unit.provisioner.clusters.test_clusters import CLUSTER, joined, workers_of
from tests.unit.provisioner.world import SPEC, Agent, World, until

RESUME = SleepRules(save_seconds=300.0, after_interruption="resume")

PRICE = 0.20
"""USD/hour on spot, of the server and of each worker."""


def cost(world: World, head: Lease) -> Cost:
    return world.provisioner._heartbeats.costs.of(world.now(head))


async def with_cluster(world: World, **changes: Any) -> tuple[Lease, Agent, list[Agent]]:
    """A server with two workers, which have just joined."""
    head, agent = await world.ready(**changes)
    cluster = replace(CLUSTER, spec=SPEC, workers=2)
    await world.provisioner.clusters.begin(head.lease_id, cluster)
    workers = await joined(world, 2, [agent.instance_id])
    await world.complete_passes(1)
    return head, agent, workers


async def end(world: World, head: Lease, workers: Sequence[Agent]) -> None:
    """Stop the cluster; its workers end in order."""
    await world.provisioner.clusters.stop(head.lease_id)
    for each in workers:
        await each.event("stopped")
    await until(lambda: not workers_of(world, head), "the workers ended")


async def left(world: World, lease: Lease, agent: Agent) -> tuple[Lease, Agent]:
    """The server on its next instance: EC2 has reclaimed the one that it had."""
    before = set(world.cloud.running())
    await agent.heartbeat(interruption_at=world.clock() + timedelta(seconds=115))
    await until(lambda: set(world.cloud.running()) - before, "another instance")
    [instance_id] = set(world.cloud.running()) - before
    other = Agent(world, instance_id)
    serving = asyncio.create_task(other.serve())
    await world.state(lease, LeaseState.ENDING)
    await agent.event("stopped")
    world.cloud.end(agent.instance_id, SPOT_TERMINATION)
    await world.state(lease, LeaseState.ENDED)
    return await serving, other


async def passes(world: World, minutes: int, *agents: Agent) -> None:
    """Time in which all of them call."""
    for _ in range(minutes):
        world.clock.advance(60)
        for each in agents:
            await each.heartbeat()


async def test_a_server_without_a_cluster_has_no_workers_to_pay(priced: World) -> None:
    head, _ = await priced.ready()
    assert cost(priced, head).workers is None


async def test_workers_cost_beside_their_server(priced: World) -> None:
    head, agent, workers = await with_cluster(priced)
    await passes(priced, 30, agent, *workers)

    found = cost(priced, head)
    assert found.usd_per_hour == pytest.approx(PRICE)
    assert found.workers is not None
    assert (found.workers.count, found.workers.running) == (2, 2)
    assert found.workers.usd_per_hour == pytest.approx(2 * PRICE)
    assert found.workers.usd == pytest.approx(PRICE, rel=0.02), "two for half an hour"
    assert found.today_usd == pytest.approx(found.usd + found.workers.usd, rel=0.02)


async def test_the_home_page_says_how_many_end_with_the_server(priced: World) -> None:
    head, _, _ = await with_cluster(priced)
    choice = stop_choice(priced.provisioner, head.lease_id, "")
    assert choice is not None
    assert choice["workers"] == 2


async def test_what_ended_workers_have_cost_remains(priced: World) -> None:
    """Also in the next process of the hub, and in the server's next cluster."""
    head, agent, workers = await with_cluster(priced)
    await passes(priced, 30, agent, *workers)
    await end(priced, head, workers)

    after = cost(priced, head).workers
    assert after is not None
    assert (after.count, after.running, after.usd_per_hour) == (0, 0, 0.0)
    assert after.usd == pytest.approx(PRICE, rel=0.02)

    await priced.complete_passes(1)
    await priced.restart()
    found = cost(priced, head).workers
    assert found is not None
    assert (found.count, found.usd) == (0, after.usd)

    await priced.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, spec=SPEC, workers=1))
    again = cost(priced, head).workers
    assert again is not None
    assert (again.count, again.running) == (1, 0), "it has no instance yet"
    assert again.usd == after.usd


async def test_a_price_that_is_known_after_the_end_of_a_worker_counts(priced: World) -> None:
    head, agent, workers = await with_cluster(priced)
    await passes(priced, 30, agent, *workers)
    ids = [each.lease_id for each in workers_of(priced, head)]
    await end(priced, head, workers)
    leases = priced.provisioner._state.leases
    for usd_per_hour, expected in ((None, None), (2 * PRICE, 2 * PRICE)):
        for each in ids:
            worker = leases.get(each)
            assert worker is not None
            known = [replace(x, usd_per_hour=usd_per_hour) for x in worker.segments]
            leases.remember(each, segments=tuple(known))
        found = cost(priced, head).workers
        assert found is not None
        assert found.usd == (expected and pytest.approx(expected, rel=0.05))


async def test_the_cost_of_a_worker_survives_a_hub_that_is_killed_at_its_end(priced: World) -> None:
    head, agent, workers = await with_cluster(priced)
    await passes(priced, 30, agent, *workers)
    await end(priced, head, workers)
    before = cost(priced, head).workers
    assert before is not None

    await priced.kill()
    await priced.start()

    found = cost(priced, head).workers
    assert found is not None
    assert found.usd == before.usd


@pytest.mark.parametrize("restarts", [False, True])
async def test_workers_that_end_long_after_their_server_has_moved_count(
    priced: World, restarts: bool
) -> None:
    head, agent, workers = await with_cluster(priced, sleep=RESUME)
    await passes(priced, 30, agent, *workers)
    second, other = await left(priced, head, agent)
    if restarts:
        await priced.restart()
        priced.provisioner.take_up("ada", "", second.lease_id)
    await passes(priced, 15, other, *workers)
    await priced.complete_passes(1)
    leases = priced.provisioner._state.leases
    assert leases.get(head.lease_id) is None, "it has left memory"
    for each in workers:
        await each.event("stopped")
    await until(lambda: not [x for x in leases.workers_of(head.lease_id) if x.state in OPEN], "end")
    for minutes in (0, 15):
        await passes(priced, minutes, other)
        await priced.complete_passes(1)
        found = cost(priced, second)
        assert found.workers is not None
        assert found.workers.usd == pytest.approx(1.5 * PRICE, rel=0.05)
        assert found.today_usd == pytest.approx(found.usd + found.workers.usd, abs=0.005)
    assert not leases.workers_of(head.lease_id), "they have left memory"


async def test_workers_of_an_instance_that_the_server_has_left_still_count(priced: World) -> None:
    """A cluster ends where its server moves; what it has cost does not."""
    head, agent, workers = await with_cluster(priced, sleep=RESUME)
    await passes(priced, 30, agent, *workers)
    paid = cost(priced, head).workers
    assert paid is not None
    second, other = await left(priced, head, agent)
    for each in workers:
        await each.event("stopped")
    await until(lambda: not workers_of(priced, head), "the workers ended")

    after = cost(priced, second).workers
    assert after is not None
    assert (after.count, after.running) == (0, 0)
    assert after.usd == pytest.approx(paid.usd, rel=0.1)
    assert after.usd >= paid.usd

    third, _ = await left(priced, second, other)
    await priced.complete_passes(1)
    await priced.restart()
    again = cost(priced, third).workers
    assert again is not None
    assert again.usd == after.usd


async def test_the_agent_of_a_server_hears_at_once_that_a_worker_costs_something(
    priced: World,
) -> None:
    head, agent = await priced.ready()
    contact = priced.provisioner._state.leases.contact(head.lease_id)
    before = contact.state
    await priced.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, spec=SPEC, workers=1))
    workers = await joined(priced, 1, [agent.instance_id])
    started = contact.state
    assert started > before
    await end(priced, head, workers)
    assert contact.state > started


async def test_a_worker_of_unknown_price_leaves_a_lower_bound(world: World) -> None:
    """This world has no prices: unknown is never 0."""
    head, agent = await world.ready()
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, spec=SPEC, workers=1))
    await joined(world, 1, [agent.instance_id])

    found = cost(world, head).workers
    assert found is not None
    assert found.running == 1
    assert (found.usd, found.usd_per_hour) == (None, None)
    assert (found.known_usd, found.known_usd_per_hour) == (None, None)

"""The workers of a server: their number, their limits, and their end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core import cluster_size
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.hub.api.instances import server_model
from ec2spawner.provisioner.clusters import controller
from ec2spawner.provisioner.clusters.clusters import CannotCluster
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.instance import SPOT_TERMINATION
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import LIVE, Lease, LeaseState
from ec2spawner.provisioner.model.leases.worker import worker_number
from ec2spawner.wire import IdlePolicy, Stop
from tests.unit.provisioner.costs import paid_for_nothing
from tests.unit.provisioner.world import SPEC, Agent, World, until

CLUSTER = Cluster(
    workers=3,
    engine="ray",
    profile="a10g",
    profile_name="A10G, 24 GB",
    spec=replace(SPEC, instance_types=("g5.xlarge",)),
    address="10.0.0.1:6379",
    sealed_start="sealed worker",
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "PAUSE", replace(cluster_size.PAUSE, first=0.01, longest=0.02))


def workers_of(world: World, head: Lease) -> list[Lease]:
    """Open ones, by number."""
    leases = world.provisioner._state.leases.open()
    return sorted((x for x in leases if x.head == head.lease_id), key=worker_number)


def live_workers(world: World, head: Lease) -> list[Lease]:
    return [each for each in workers_of(world, head) if each.state in LIVE]


async def joined(world: World, number: int, beside: Sequence[str]) -> list[Agent]:
    """The agents of so many workers, once all have joined."""
    await until(lambda: len(world.cloud.running()) == number + len(beside), "instances of workers")
    agents = [Agent(world, x) for x in world.cloud.running() if x not in beside]
    await asyncio.gather(*(agent.serve() for agent in agents))
    return agents


async def with_cluster(
    world: World, workers: int = 3, **changes: Any
) -> tuple[Lease, Agent, list[Agent]]:
    """A server, its agent, and the agents of its workers, all ready."""
    head, agent = await world.ready(**changes)
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=workers))
    others = await joined(world, workers, [agent.instance_id])
    return world.now(head), agent, others


def fleets(world: World) -> int:
    return len(world.cloud.requests())


async def test_all_workers_are_bought_with_one_call_and_belong_to_the_owner(world: World) -> None:
    head, agent = await world.ready(payer="group:research")
    before = fleets(world)

    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=8))
    agents = await joined(world, 8, [agent.instance_id])

    assert fleets(world) - before == 1
    workers = workers_of(world, head)
    assert [worker_number(each) for each in workers] == list(range(1, 9))
    assert {(each.user, each.payer, each.head) for each in workers} == {
        ("ada", "group:research", head.lease_id)
    }
    assert {each.state for each in workers} == {LeaseState.READY}
    assert len({each.instance_id for each in agents}) == 8
    assert world.provisioner.lease_of("ada", "") == world.now(head), "the server is the server"


async def test_admins_see_each_worker_with_its_server(world: World) -> None:
    await with_cluster(world, 2, server="lab")
    seen = [server_model(each, world.clock()) for each in world.provisioner.overview.servers()]
    assert [(each.server, each.head, each.worker) for each in seen] == [
        ("lab", "", None),
        ("lab/1", "lab", 1),
        ("lab/2", "lab", 2),
    ]
    assert {each.user for each in seen} == {"ada"}


@pytest.mark.parametrize("reason", ["user", "idle", "admin", "max-age", "budget"])
async def test_workers_end_with_their_server_whatever_ends_it(world: World, reason: Any) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()

    await world.stop(head, reason)
    await world.complete_passes(2)

    assert world.cloud.running() == []
    assert not workers_of(world, head)


async def test_workers_end_when_the_instance_of_their_server_is_gone(world: World) -> None:
    _, agent, _ = await with_cluster(world)
    world.silence_agents()

    world.cloud.end(agent.instance_id)
    await world.complete_passes(2)

    assert world.cloud.running() == []


@pytest.mark.parametrize(
    ("reason", "payers"), [("user", {"ada"}), ("lost", {"ada"}), ("admin", {""})]
)
async def test_what_was_bought_for_workers_is_paid_by_who_ended_their_server(
    priced: World, reason: Any, payers: set[str]
) -> None:
    """Also where the user, who may be root, has ended its instance."""
    head, agent = await priced.ready()
    await priced.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, spec=SPEC))
    await priced.boot(4)
    await priced.complete_passes(1)
    priced.clock.advance(60)
    await agent.heartbeat()
    priced.silence_agents()
    await priced.stop(head, reason)
    await until(lambda: not priced.cloud.running(), "their end")
    assert await paid_for_nothing(priced) == payers


async def test_workers_end_after_a_restart_of_a_hub_that_was_killed_as_their_server_ended(
    world: World,
) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()
    async with world.no_pass:  # killed before any pass has seen that the server ends
        await world.stop(head)
        await world.state(head, LeaseState.ENDED)
        assert len(live_workers(world, head)) == 3
        await world.kill()
    await world.start()
    await world.complete_passes(2)

    assert world.cloud.running() == []


async def test_workers_of_a_running_server_outlive_a_restart_of_the_hub(world: World) -> None:
    head, agent, workers = await with_cluster(world)
    before = set(world.cloud.running())

    await world.restart(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    for each in (agent, *workers):
        await each.heartbeat()
    world.clock.advance(1.0)
    await world.complete_passes(2)

    assert set(world.cloud.running()) == before
    assert len(live_workers(world, head)) == 3


async def test_a_restarted_hub_hears_all_workers_before_it_gives_some_up(world: World) -> None:
    """One of them may stop already: the hub died before it had stored what its agent knew."""
    head, agent, workers = await with_cluster(world)
    await world.restart(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    await world.provisioner.clusters.scale(head.lease_id, 2)
    first, second, third = workers
    for each in (agent, first, second):
        await each.heartbeat()
    await world.complete_passes(2)
    assert len(live_workers(world, head)) == 3

    assert third.lease is not None
    world.silence_agents()
    await world.stop(world.now(third.lease), "failed")
    await until(lambda: len(live_workers(world, head)) == 2, "its end")
    await world.complete_passes(2)
    assert {x.instance_id for x in live_workers(world, head)} == {
        first.instance_id,
        second.instance_id,
    }


async def test_a_worker_whose_instance_is_gone_is_replaced(world: World) -> None:
    head, _, workers = await with_cluster(world)

    world.cloud.end(workers[0].instance_id)
    await until(lambda: len(world.cloud.running()) == 4, "another instance")

    assert world.now(head).state is LeaseState.READY
    await until(lambda: len(live_workers(world, head)) == 3, "three workers")
    assert worker_number(live_workers(world, head)[-1]) == 4, "no number is used twice"


async def test_the_last_number_is_stored_before_the_workers_that_have_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that is killed between the two would use the numbers again."""
    head, agent = await world.ready()
    saved: list[Lease] = []
    save = world.store.save_lease

    async def record(lease: Lease, *rest: Any, **more: Any) -> None:
        saved.append(lease)
        await save(lease, *rest, **more)

    monkeypatch.setattr(world.store, "save_lease", record)
    await world.provisioner.clusters.begin(head.lease_id, CLUSTER)
    await joined(world, 3, [agent.instance_id])

    first = next(x for x in saved if x.head or x.cluster)
    assert first.lease_id == head.lease_id
    assert first.cluster is not None
    assert first.cluster.last_number == 3


async def test_a_worker_is_replaced_at_the_notice(world: World) -> None:
    head, _, workers = await with_cluster(world)

    await workers[1].heartbeat(interruption_at=world.clock() + timedelta(seconds=120))
    await until(
        lambda: len(world.cloud.running()) == 5, "another instance beside the reclaimed one"
    )

    assert len(live_workers(world, head)) == 4
    reclaimed = world.now(workers[1].lease) if workers[1].lease else None
    assert reclaimed is not None
    assert reclaimed.state is LeaseState.READY, "it works until it is reclaimed"


async def test_a_worker_that_ec2_reclaims_in_its_first_hour_is_free(priced: World) -> None:
    head, agent = await priced.ready()
    await priced.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, spec=SPEC, workers=1))
    [worker] = await joined(priced, 1, [agent.instance_id])
    await worker.heartbeat(interruption_at=priced.clock() + timedelta(seconds=120))
    [other] = await joined(priced, 1, [agent.instance_id, worker.instance_id])
    await worker.event("stopped")
    assert worker.lease is not None
    await priced.provisioner.end(worker.lease.lease_id, Stop(reason="interruption"))
    await priced.watch_passes(2)
    assert worker.instance_id in priced.cloud.running()

    priced.cloud.end(worker.instance_id, SPOT_TERMINATION)
    ended = await priced.state(worker.lease, LeaseState.ENDED)
    assert [x.usd_per_hour for x in ended.segments] == [0.0]
    assert priced.cloud.of("terminate") == []
    assert set(priced.cloud.running()) == {agent.instance_id, other.instance_id}


YEARS_AHEAD = datetime(9999, 12, 31, tzinfo=UTC)


async def test_workers_that_keep_claiming_to_be_reclaimed_are_replaced_once_and_end_with_a_stop(
    world: World,
) -> None:
    head, agent, workers = await with_cluster(world, workers=2)
    world.silence_agents()
    for each in workers:
        await each.heartbeat(interruption_at=YEARS_AHEAD)
    beside = [agent.instance_id, *(each.instance_id for each in workers)]
    others = await joined(world, 2, beside)
    for _ in range(3):
        for each in (*workers, *others):
            await each.heartbeat(interruption_at=YEARS_AHEAD)
        world.clock.advance(1.0)  # longer than any pause between two tries
        await world.complete_passes(1)
    assert len(live_workers(world, head)) == 4

    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.running() == [agent.instance_id], "only the server's")


async def test_workers_that_keep_claiming_to_work_do_not_outlive_the_servers_maximum_age(
    world: World,
) -> None:
    """Their agents are their user's: while they say so, the server is not idle."""
    policy = IdlePolicy(server_seconds=600.0, max_age_seconds=3600.0)
    head, agent, workers = await with_cluster(world, workers=1, idle=policy)
    world.silence_agents()
    began = world.clock()
    for _ in range(5):
        world.clock.advance(600.0)
        await workers[0].heartbeat()
        await agent.heartbeat(idle_since=began)
    await world.complete_passes(1)
    assert world.now(head).state is LeaseState.READY
    world.clock.advance(600.0)
    await workers[0].heartbeat()
    await agent.heartbeat(idle_since=began)

    assert (await world.stop_of(head)).reason == "max-age"
    await until(lambda: not world.cloud.running(), "the workers ended")


async def test_a_worker_reports_once_that_it_has_joined(world: World) -> None:
    head, _, [worker] = await with_cluster(world, workers=1)
    assert worker.lease is not None
    before = world.now(worker.lease)
    for step in ("ready", "failed", "home"):
        await worker.event(step)
    assert world.now(worker.lease) == before
    assert live_workers(world, head) == [before]


async def test_a_cluster_is_scaled_in_both_directions(world: World) -> None:
    head, _, workers = await with_cluster(world)
    await asyncio.gather(*(each.heartbeat() for each in workers))
    world.silence_agents()

    await world.provisioner.clusters.scale(head.lease_id, 1)
    await until(lambda: len(world.cloud.running()) == 2, "two instances")
    assert [worker_number(each) for each in live_workers(world, head)] == [1]

    before = fleets(world)
    await world.provisioner.clusters.scale(head.lease_id, 4)
    await until(lambda: len(world.cloud.running()) == 5, "five instances")
    assert fleets(world) - before == 1
    assert [worker_number(each) for each in live_workers(world, head)] == [1, 4, 5, 6]


async def test_a_cluster_that_is_stopped_leaves_its_server(world: World) -> None:
    head, agent, _ = await with_cluster(world)
    world.silence_agents()

    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.running() == [agent.instance_id], "only the server's")

    assert world.now(head).state is LeaseState.READY
    await world.complete_passes(2)
    assert world.cloud.running() == [agent.instance_id], "nothing is bought again"
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=1))
    await until(lambda: len(world.cloud.running()) == 2, "a new cluster")


async def test_workers_stop_once_nothing_has_run_on_any_of_them(world: World) -> None:
    policy = IdlePolicy(server_seconds=600.0)
    head, agent, workers = await with_cluster(world, idle=policy)
    world.silence_agents()
    began = world.clock()
    await workers[0].heartbeat()  # this one works
    for each in workers[1:]:
        await each.heartbeat(idle_since=began)
    world.clock.advance(700.0)
    for each in (agent, *workers):
        await each.heartbeat(idle_since=None if each in (agent, workers[0]) else began)
    await world.complete_passes(2)
    assert len(live_workers(world, head)) == 3

    for each in workers:
        await each.heartbeat(idle_since=began)
    await until(lambda: world.cloud.running() == [agent.instance_id], "the workers ended")

    found = world.now(head)
    assert found.state is LeaseState.READY
    assert found.cluster is not None
    assert (found.cluster.workers, bool(found.cluster.stopped_because)) == (0, True)


async def test_a_server_whose_workers_work_is_not_idle(world: World) -> None:
    policy = IdlePolicy(server_seconds=600.0)
    head, agent, workers = await with_cluster(world, workers=1, idle=policy)
    began = world.clock()
    await workers[0].heartbeat()
    await agent.heartbeat(idle_since=began)
    world.clock.advance(700.0)
    await workers[0].heartbeat()
    await agent.heartbeat(idle_since=began)
    await world.complete_passes(2)
    assert world.now(head).state is LeaseState.READY

    world.silence_agents()
    await workers[0].heartbeat(idle_since=world.clock())
    world.clock.advance(700.0)
    await agent.heartbeat(idle_since=began)
    await workers[0].heartbeat(idle_since=began + timedelta(seconds=700.0))
    ended = await world.stop_of(head)
    assert ended.reason == "idle"


async def test_a_server_whose_last_busy_worker_is_gone_was_not_idle_before(world: World) -> None:
    policy = IdlePolicy(server_seconds=600.0)
    head, agent, workers = await with_cluster(world, workers=1, idle=policy)
    world.silence_agents()
    began = world.clock()
    await agent.heartbeat(idle_since=began)
    for _ in range(20):
        world.clock.advance(60.0)
        await workers[0].heartbeat()
        await agent.heartbeat(idle_since=began)
        await world.watch_passes(1)

    world.cloud.end(workers[0].instance_id)
    await until(lambda: len(live_workers(world, head)) == 1, "a replacement that has not joined")
    await world.complete_passes(2)

    assert world.now(head).state is LeaseState.READY


async def test_the_silent_workers_of_one_cluster_hold_up_no_end_of_others(world: World) -> None:
    head, agent, _ = await with_cluster(world, workers=6)
    world.silence_agents()
    for _ in range(10):
        world.clock.advance(60.0)
        await agent.heartbeat()
    await until(lambda: not any(worker_number(x) <= 6 for x in live_workers(world, head)), "ends")
    assert world.now(head).state is LeaseState.READY


async def test_a_cluster_that_its_user_has_stopped_cannot_be_scaled(world: World) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()
    await world.provisioner.clusters.stop(head.lease_id)
    with pytest.raises(CannotCluster):
        await world.provisioner.clusters.scale(head.lease_id, 4)


async def test_workers_stop_by_the_idle_time_of_their_own_profile(world: World) -> None:
    head, agent = await world.ready(idle=IdlePolicy(server_seconds=0.0))
    cluster = replace(CLUSTER, workers=1, idle_seconds=600.0)
    await world.provisioner.clusters.begin(head.lease_id, cluster)
    [worker] = await joined(world, 1, [agent.instance_id])
    world.silence_agents()
    began = world.clock()
    world.clock.advance(700.0)
    await agent.heartbeat()
    world.break_store()
    await worker.heartbeat(idle_since=began)
    await world.watch_passes(2)
    world.fix_store()
    await until(lambda: world.cloud.running() == [agent.instance_id], "the worker ended")

    await world.stop(head)
    await world.state(head, LeaseState.ENDED)
    again, _ = await world.ready()
    shape = world.provisioner.clusters.last_shape(again)
    assert shape is not None
    assert shape.offered_workers == 1, "idleness ended it, and not its user"


async def test_a_cluster_that_its_user_gives_up_after_an_idle_end_is_not_offered(
    world: World,
) -> None:
    head, _, _ = await with_cluster(world)
    cluster = world.now(head).cluster
    assert cluster is not None
    idle = replace(cluster, workers=0, workers_before=3)
    clusters = world.provisioner.clusters
    for give_up in (clusters.stop(head.lease_id), clusters.scale(head.lease_id, 0)):
        await world.provisioner._state.leases.change(head.lease_id, cluster=idle)
        await give_up
        after = world.now(head).cluster
        assert after is not None
        assert after.offered_workers == 0


async def test_a_limit_counts_all_workers_before_any_is_bought(world: World) -> None:
    await world.restart(limits=Limits(user=Bounds(servers=3)))
    head, _ = await world.ready()
    before = fleets(world)

    with pytest.raises(LimitReached):
        await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=3))
    assert fleets(world) == before
    assert not workers_of(world, head)
    assert world.now(head).cluster is None

    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=2))
    await until(lambda: len(world.cloud.running()) == 3, "two workers")
    with pytest.raises(LimitReached):
        await world.provisioner.clusters.scale(head.lease_id, 3)


async def test_limits_are_checked_for_a_price_as_for_a_start_and_nothing_is_recorded(
    world: World,
) -> None:
    await world.restart(limits=Limits(user=Bounds(servers=3)))
    head, _ = await world.ready()
    clusters = world.provisioner.clusters

    await clusters.check_limits(head.lease_id, replace(CLUSTER, workers=2))
    with pytest.raises(LimitReached):
        await clusters.check_limits(head.lease_id, replace(CLUSTER, workers=3))
    assert not world.provisioner._state.denied_starts.since(head.requested_at)
    assert world.now(head).cluster is None

    await clusters.begin(head.lease_id, replace(CLUSTER, workers=2))
    await clusters.check_limits(head.lease_id, replace(CLUSTER, workers=2))
    with pytest.raises(LimitReached):
        await clusters.check_limits(head.lease_id, replace(CLUSTER, workers=3))


async def test_money_is_counted_for_all_workers_together(priced: World) -> None:
    limits = Limits(user=Bounds(usd_per_hour=1.0))
    await priced.restart(limits=limits)
    await until(lambda: priced.provisioner.market.prices._spot, "prices")
    head, _ = await priced.ready()
    cluster = replace(CLUSTER, spec=SPEC)  # 0.20 on spot, 0.526 on demand, as the server itself

    with pytest.raises(LimitReached):
        await priced.provisioner.clusters.begin(head.lease_id, replace(cluster, workers=5))
    await priced.provisioner.clusters.begin(head.lease_id, replace(cluster, workers=2))
    await until(lambda: len(priced.cloud.running()) == 3, "two workers")


async def test_workers_that_never_join_are_not_bought_without_end(world: World) -> None:
    head, agent = await world.ready()
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=1))
    world.silence_agents()
    for _ in range(cluster_size.MAX_FAILURES):
        await until(lambda: len(world.cloud.running()) == 2, "a worker")
        [instance_id] = set(world.cloud.running()) - {agent.instance_id}
        worker = Agent(world, instance_id)
        assert await worker.claim() is not None
        assert worker.lease is not None
        await worker.event("failed", "Ray 2.60.0 is not installed")
        # The next one may have been bought already.
        await until(lambda ended=instance_id: ended not in world.cloud.running(), "its end")  # type: ignore[misc]
        world.clock.advance(1.0)
        await agent.heartbeat()

    await world.complete_passes(3)

    assert world.cloud.running() == [agent.instance_id]
    for _ in range(20):  # for longer than ended leases are remembered
        world.clock.advance(60.0)
        await agent.heartbeat()
    await world.complete_passes(3)
    assert world.cloud.running() == [agent.instance_id]
    found = world.now(head)
    assert world.provisioner.clusters.has_given_up(found)
    assert "not installed" in world.provisioner.clusters.last_failure(found)
    await world.provisioner.clusters.scale(head.lease_id, 1)  # its user has repaired something
    await until(lambda: len(world.cloud.running()) == 2, "one more try")


async def test_workers_that_fail_as_soon_as_they_have_joined_are_not_bought_without_end(
    world: World,
) -> None:
    head, agent = await world.ready()
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=1))
    world.silence_agents()
    for _ in range(cluster_size.MAX_FAILURES):
        [worker] = await joined(world, 1, [agent.instance_id])
        await worker.event("stopped")
        ended = worker.instance_id
        await until(lambda ended=ended: ended not in world.cloud.running(), "its end")  # type: ignore[misc]
        world.clock.advance(1.0)
        await agent.heartbeat()

    await world.complete_passes(3)

    assert world.cloud.running() == [agent.instance_id]
    assert world.provisioner.clusters.has_given_up(world.now(head))


async def test_a_new_cluster_begins_while_the_workers_of_the_last_one_still_end(
    world: World,
) -> None:
    head, _, workers = await with_cluster(world, workers=1)
    old = workers[0].instance_id

    await world.provisioner.clusters.stop(head.lease_id)
    await world.provisioner.clusters.begin(
        head.lease_id, replace(CLUSTER, workers=1, sealed_start="another secret")
    )

    await until(lambda: len(world.cloud.running()) == 3, "a new worker beside the ending one")
    [worker] = live_workers(world, head)
    assert (worker_number(worker), worker.sealed_start) == (2, "another secret")
    assert world.now(head).cluster is not None
    assert old in world.cloud.running(), "its agent still has time"
    world.silence_agents()


async def test_only_a_running_server_has_a_cluster(world: World) -> None:
    clusters = world.provisioner.clusters
    head, _, workers = await with_cluster(world)
    with pytest.raises(CannotCluster):
        await clusters.begin(head.lease_id, CLUSTER)  # it has one
    worker = workers[0].lease
    assert worker is not None
    with pytest.raises(CannotCluster):
        await clusters.begin(worker.lease_id, CLUSTER)
    with pytest.raises(CannotCluster):
        await clusters.begin("lease-unknown", CLUSTER)


async def test_the_next_start_knows_the_shape_of_the_cluster_and_no_secret_of_it(
    world: World,
) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()
    await world.stop(head)
    await world.state(head, LeaseState.ENDED)
    await world.complete_passes(2)
    await world.restart()

    again, _ = await world.ready()
    shape = world.provisioner.clusters.last_shape(again)

    assert shape is not None
    assert (shape.workers, shape.profile, shape.engine) == (3, "a10g", "ray")
    assert (shape.sealed_start, shape.address) == ("", "")


async def test_the_ledger_has_what_each_worker_cost(priced: World) -> None:
    head, agent = await priced.ready()
    cluster = replace(CLUSTER, spec=SPEC, workers=2)
    await priced.provisioner.clusters.begin(head.lease_id, cluster)
    workers = await joined(priced, 2, [agent.instance_id])
    for each in (agent, *workers):
        await each.heartbeat_often(1800.0)
    priced.silence_agents()
    await priced.provisioner.end(head.lease_id, Stop(reason="user", message="because"))
    await priced.state(head, LeaseState.ENDED)
    await until(lambda: not workers_of(priced, head), "the workers ended")
    await priced.complete_passes(2)

    leases = [x for x in priced.provisioner._state.leases.in_memory() if x.user == "ada"]
    assert sorted(each.server for each in leases) == ["", "/1", "/2"]
    assert all(len(each.segments) == 1 for each in leases)
    assert {each.segments[0].usd_per_hour for each in leases} == {0.20}
    assert all(each.segments[0].end is not None for each in leases)

"""The placement group of a cluster: workers are launched into it, and it is never left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ec2spawner.core.instances.leaks import GRACE
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.core.tags import HUB, LEASE, PAYER, STORE, USER
from ec2spawner.provisioner.clusters.groups import group_name
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.launch import LaunchSpec
from ec2spawner.provisioner.model.cloud.network import PlacementGroup
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.clusters.test_cluster_security_groups import (
    DENIED,
    THROTTLED,
    after_pauses,
    cluster_of,
    only_group,
    short_pauses,
)
from tests.unit.provisioner.clusters.test_clusters import CLUSTER, joined, live_workers, workers_of
from tests.unit.provisioner.world import SPEC, Agent, World, until

__all__ = ["short_pauses"]

IN_USE = CloudError("InvalidPlacementGroup.InUse", "in use", retryable=False)

SPEC_OF_WORKER = replace(CLUSTER.spec, subnets=("subnet-a",))
"""As workers have it: in the zone of their server."""


def placed(head: Lease) -> LaunchSpec:
    return replace(SPEC_OF_WORKER, placement_group=group_name(head.lease_id))


async def begin(world: World, head: Lease, workers: int = 2, *, apart: bool = False) -> None:
    spec = SPEC_OF_WORKER if apart else placed(head)
    cluster = replace(CLUSTER, workers=workers, spec=spec)
    await world.provisioner.clusters.begin(head.lease_id, cluster)


async def with_placed(world: World, workers: int = 2) -> tuple[Lease, Agent, list[Agent]]:
    """A server with a cluster whose workers are ready."""
    head, agent = await world.ready(payer="group:research")
    await begin(world, head, workers)
    return head, agent, await joined(world, workers, [agent.instance_id])


async def all_gone(world: World) -> None:
    await after_pauses(world)
    assert (world.cloud.placement_groups, world.cloud.security_groups) == ({}, {})


async def test_all_workers_are_launched_into_it_by_one_call(world: World) -> None:
    head, agent, workers = await with_placed(world, 3)

    name = group_name(head.lease_id)
    [group] = world.cloud.placement_groups.values()
    assert world.cloud.placed_in(name) == {each.instance_id for each in workers}
    assert agent.instance_id not in world.cloud.placed, "a running instance cannot be moved"
    of_workers = world.cloud.requests()[1:]
    assert [(each.count, each.spec.placement_group) for each in of_workers] == [(3, name)]
    assert cluster_of(world, head).placement_group == name
    assert {
        HUB: "hub",
        STORE: world.store.store_id,
        LEASE: head.lease_id,
        USER: "ada",
        PAYER: "group:research",
    }.items() <= group.tags.items()


async def test_no_worker_is_launched_before_it_exists(world: World) -> None:
    head, agent = await world.ready()
    gate = world.cloud.hold("create_placement_group")
    await begin(world, head)
    await world.watch_passes(2)

    assert len(world.cloud.requests()) == 1
    assert {x.state for x in live_workers(world, head)} == {LeaseState.WAITING}
    gate.set()
    await joined(world, 2, [agent.instance_id])


async def test_a_cluster_that_does_not_ask_for_one_has_none(world: World) -> None:
    head, agent = await world.ready()
    await begin(world, head, apart=True)
    await joined(world, 2, [agent.instance_id])
    assert not world.cloud.of("create_placement_group")
    assert world.cloud.placed == {}
    assert cluster_of(world, head).placement_group == ""


async def test_later_workers_are_launched_into_the_same(world: World) -> None:
    head, agent, workers = await with_placed(world)
    world.cloud.end(workers[0].instance_id)
    await world.provisioner.clusters.scale(head.lease_id, 3)
    await joined(world, 2, [agent.instance_id, workers[1].instance_id])

    assert len(world.cloud.placed_in(group_name(head.lease_id))) == 3
    assert len(world.cloud.of("create_placement_group")) == 1


@pytest.mark.parametrize("how", ["cluster", "server"])
async def test_it_is_deleted_once_no_worker_is_left(world: World, how: str) -> None:
    head, _, _ = await with_placed(world)
    world.silence_agents()
    if how == "cluster":
        await world.provisioner.clusters.stop(head.lease_id)
    else:
        await world.stop(head)
    await all_gone(world)
    calls = len(world.cloud.of("delete_placement_group"))
    await after_pauses(world)
    assert len(world.cloud.of("delete_placement_group")) == calls, "once is enough"


async def test_one_that_is_still_in_use_is_deleted_later(world: World) -> None:
    head, _, _ = await with_placed(world)
    world.silence_agents()
    world.cloud.fail("delete_placement_group", IN_USE, 3)
    await world.stop(head)
    await after_pauses(world, 6)
    assert world.cloud.placement_groups == {}
    assert len(world.cloud.of("delete_placement_group")) == 4


async def test_a_cluster_that_begins_before_it_could_be_deleted_is_connected(world: World) -> None:
    """Its security group is gone by then."""
    head, agent, _ = await with_placed(world, 1)
    world.silence_agents()
    world.cloud.fail("delete_placement_group", IN_USE)
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_placement_group"), "the refusal")

    await begin(world, head, 1)
    [worker] = await joined(world, 1, [agent.instance_id])
    [group] = world.cloud.security_groups
    for each in (agent, worker):
        assert group in world.cloud.machines[each.instance_id].instance.security_groups
    assert world.cloud.placed[worker.instance_id] == group_name(head.lease_id)


@pytest.mark.parametrize("first_apart", [True, False])
async def test_the_next_cluster_of_a_server_may_differ(world: World, first_apart: bool) -> None:
    """It begins while workers of the one before are ending, and keeps the groups that are there."""
    head, agent = await world.ready()
    await begin(world, head, 1, apart=first_apart)
    [before] = await joined(world, 1, [agent.instance_id])
    world.silence_agents()
    gate = world.cloud.hold("terminate")
    await world.provisioner.clusters.stop(head.lease_id)
    await begin(world, head, 1, apart=not first_apart)
    [after] = await joined(world, 1, [agent.instance_id, before.instance_id])
    gate.set()

    last = before if not first_apart else after
    assert world.cloud.placed == {last.instance_id: group_name(head.lease_id)}
    assert len(world.cloud.of("create_security_group")) == 1
    world.silence_agents()
    await world.stop(head)
    await all_gone(world)


# --- a hub that is killed, and errors --------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_that_is_killed_meanwhile_makes_no_second_one(
    world: World, after: bool
) -> None:
    head, agent = await world.ready()
    world.cloud.hold("create_placement_group", after=after)
    await begin(world, head)
    await until(lambda: world.cloud.of("create_placement_group"), "the call")
    await world.kill()
    await world.start(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    await agent.heartbeat()
    await joined(world, 2, [agent.instance_id])

    assert world.cloud.placement_groups.keys() == {group_name(head.lease_id)}
    assert len(world.cloud.placed) == 2


async def test_a_hub_that_is_killed_while_it_deletes_it_deletes_it_later(world: World) -> None:
    head, agent, _ = await with_placed(world, 1)
    world.silence_agents()
    world.cloud.hold("delete_placement_group")
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_placement_group"), "the deletion")
    await world.kill()
    await world.start(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    await agent.heartbeat()

    await all_gone(world)
    assert cluster_of(world, head).placement_group == ""


@pytest.mark.parametrize("after", [False, True])
async def test_a_throttled_call_is_repeated(world: World, after: bool) -> None:
    head, agent = await world.ready()
    world.cloud.fail("create_placement_group", THROTTLED, 2, after=after)
    await begin(world, head)
    await after_pauses(world)
    await joined(world, 2, [agent.instance_id])
    assert len(world.cloud.placed) == 2


@pytest.mark.parametrize("call", ["create_placement_group", "set_security_groups"])
async def test_a_cluster_whose_groups_are_denied_ends_and_leaves_none(
    world: World, call: str
) -> None:
    head, agent = await world.ready()
    world.cloud.fail(call, DENIED)
    await begin(world, head)
    await after_pauses(world)

    cluster: Cluster = cluster_of(world, head)
    assert cluster.workers == 0
    assert "configs/clusters-policy.json" in cluster.stopped_because
    assert workers_of(world, head) == []
    assert world.cloud.running() == [agent.instance_id]
    assert (world.cloud.placement_groups, world.cloud.security_groups) == ({}, {})


# --- capacity --------------------------------------------------------------------------------


async def test_lack_of_room_in_it_marks_nothing_as_sold_out_for_others(world: World) -> None:
    head, agent = await world.ready()
    for market in Market:
        world.cloud.capacity[market, "g5.xlarge", "us-east-1a"] = 0
    await begin(world, head)
    await until(lambda: len(world.cloud.requests()) >= 3, "spot and on-demand asked for")
    await until(lambda: world.provisioner.clusters.last_failure(world.now(head)), "the end")

    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()
    assert "placement group" in world.provisioner.clusters.last_failure(world.now(head))
    only_group(world)
    world.cloud.capacity.clear()
    await after_pauses(world)
    await joined(world, 2, [agent.instance_id])


async def test_a_type_that_ec2_refuses_in_it_stays_on_offer_for_others(world: World) -> None:
    head, _ = await world.ready()
    world.cloud.refuse("Unsupported", instance_type="g5.xlarge")
    before = len(world.cloud.requests())
    await begin(world, head)
    await until(lambda: len(world.cloud.requests()) >= before + 2, "spot and on-demand asked for")
    await until(lambda: world.provisioner.clusters.last_failure(world.now(head)), "the end")
    assert world.provisioner.market.offers.sold_out.all(world.clock()) == ()


async def test_no_place_of_a_capacity_reservation_outside_of_it_is_taken(world: World) -> None:
    places = CapacityReservation("cr-1", "g5.xlarge", "us-east-1a", total=2, available=2)
    world.cloud.capacity_reserved = {"cr-1": places}
    await world.restart(capacity_reservations=ReservationChoice(frozenset({"cr-1"})))
    await until(lambda: world.provisioner.market.reserved.listed_at, "reservations listed")
    head, _ = await world.ready()

    offers = world.provisioner.market.offers
    assert {each.reservation for each in offers.all_for(SPEC_OF_WORKER)} == {"", "cr-1"}
    assert {each.reservation for each in offers.all_for(placed(head))} == {""}


# --- garbage collection ----------------------------------------------------------------------


def left_over(world: World, lease_id: str, **changes: str) -> None:
    tags = {HUB: "hub", STORE: world.store.store_id, LEASE: lease_id} | changes
    name = group_name(lease_id)
    world.cloud.placement_groups[name] = PlacementGroup(name, "available", tags)


async def scans(world: World, number: int = 2) -> None:
    before = len(world.cloud.of("list_placement_groups"))
    await until(
        lambda: len(world.cloud.of("list_placement_groups")) > before + number, "scans for groups"
    )


async def test_one_of_no_open_cluster_is_deleted_when_it_is_old(world: World) -> None:
    await world.restart(reap_interval=5.0, has_clusters=True, agent_silent_after=2 * GRACE)
    head, _, _ = await with_placed(world, 1)
    left_over(world, "lease-lost")
    left_over(world, "lease-others", **{STORE: "other"})
    kept = {group_name(head.lease_id), group_name("lease-others")}
    await scans(world)
    world.clock.advance(GRACE - 1)
    await scans(world)
    assert len(world.cloud.placement_groups) == 3

    world.clock.advance(1)
    await until(lambda: world.cloud.placement_groups.keys() == kept, "deleted")
    await scans(world)
    assert world.cloud.placement_groups.keys() == kept


async def test_one_that_its_cluster_is_deleting_is_left_to_it(world: World) -> None:
    await world.restart(reap_interval=5.0, has_clusters=True)
    head, _, _ = await with_placed(world, 1)
    world.silence_agents()
    gate = world.cloud.hold("delete_placement_group")
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_placement_group"), "the deletion")
    await scans(world)
    world.clock.advance(2 * GRACE)
    await scans(world)
    assert len(world.cloud.of("delete_placement_group")) == 1
    gate.set()
    await all_gone(world)


async def test_a_hub_without_clusters_does_not_scan_for_them(world: World) -> None:
    await world.restart(reap_interval=5.0)
    before = len(world.cloud.of("list_security_groups"))
    await until(lambda: len(world.cloud.of("list_security_groups")) > before + 2, "scans")
    assert not world.cloud.of("list_placement_groups")


# --- launch keys -----------------------------------------------------------------------------


def test_only_instances_of_the_same_group_serve_its_workers() -> None:
    one, other = (replace(SPEC, placement_group=name) for name in ("one", "other"))
    assert len({launch_key_of(each) for each in (SPEC, one, other)}) == 3

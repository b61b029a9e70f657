"""The security group of a cluster: there before its workers, gone after them, never left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ec2spawner.core import cluster_size
from ec2spawner.core.instances.leaks import GRACE
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.tags import HUB, LEASE, PAYER, STORE, USER
from ec2spawner.provisioner.clusters import controller, groups
from ec2spawner.provisioner.clusters.groups import group_name
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.network import Interface, SecurityGroup
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from tests.unit.provisioner.clusters.test_clusters import (
    CLUSTER,
    joined,
    live_workers,
    with_cluster,
    workers_of,
)
from tests.unit.provisioner.retained import LINGER, STOP, end_in_order, ready
from tests.unit.provisioner.world import SPEC, World, until

THROTTLED = CloudError("RequestLimitExceeded", "later", retryable=True)
DENIED = CloudError("UnauthorizedOperation", "You are not authorized", retryable=False)
IN_USE = CloudError("DependencyViolation", "has a dependent object", retryable=False)

CALLS = ("create_security_group", "set_security_groups")
"""All that is asked for before the first worker."""


NOTEBOOKS = SPEC.security_groups


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(cluster_size.PAUSE, first=0.01, longest=0.02)
    monkeypatch.setattr(controller, "PAUSE", short)
    monkeypatch.setattr(groups, "PAUSE", short)


def cluster_of(world: World, head: Lease) -> Cluster:
    cluster = world.now(head).cluster
    assert cluster is not None
    return cluster


def only_group(world: World) -> SecurityGroup:
    [group] = world.cloud.security_groups.values()
    return group


def groups_of(world: World, instance_id: str) -> tuple[str, ...]:
    return tuple(world.cloud.machines[instance_id].instance.security_groups)


async def begin(world: World, head: Lease, workers: int = 3) -> None:
    await world.provisioner.clusters.begin(head.lease_id, replace(CLUSTER, workers=workers))


async def after_pauses(world: World, number: int = 4) -> None:
    for _ in range(number):
        world.clock.advance(1.0)
        await world.complete_passes(1)


async def gone(world: World) -> None:
    await after_pauses(world)
    assert world.cloud.security_groups == {}


# --- made and attached -----------------------------------------------------------------------


async def test_all_nodes_have_one_group_and_the_server_has_it_first(world: World) -> None:
    head, agent, workers = await with_cluster(world, payer="group:research")

    group = only_group(world)
    nodes = {agent.instance_id, *(each.instance_id for each in workers)}
    assert world.cloud.members(group.group_id) == nodes
    assert {groups_of(world, each) for each in nodes} == {(*NOTEBOOKS, group.group_id)}
    assert cluster_of(world, head).security_group == group.group_id
    order = [call.name for call in world.cloud.calls if call.name in {*CALLS, "launch"}]
    assert order == ["launch", *CALLS, "launch"]


async def test_its_tags_say_whose_it_is(world: World) -> None:
    head, _, _ = await with_cluster(world, payer="group:research")

    group = only_group(world)
    assert group.name == group_name(head.lease_id)
    wanted = {
        HUB: "hub",
        STORE: world.store.store_id,
        LEASE: head.lease_id,
        USER: "ada",
        PAYER: "group:research",
    }
    assert wanted.items() <= group.tags.items()


async def test_workers_keep_the_groups_of_their_profile(world: World) -> None:
    spec = replace(CLUSTER.spec, security_groups=("sg-notebooks", "sg-shared"))
    head, agent = await world.ready()
    cluster = replace(CLUSTER, workers=1, spec=spec)
    await world.provisioner.clusters.begin(head.lease_id, cluster)
    [worker] = await joined(world, 1, [agent.instance_id])

    group = only_group(world).group_id
    assert groups_of(world, worker.instance_id) == ("sg-notebooks", "sg-shared", group)
    assert groups_of(world, agent.instance_id) == ("sg-notebooks", group)


async def test_each_cluster_has_a_group_that_the_other_lacks(world: World) -> None:
    one, _, _ = await with_cluster(world, 1)
    running = set(world.cloud.running())
    other, agent = await world.ready("grace")
    await begin(world, other, 1)
    await joined(world, 1, [*running, agent.instance_id])

    groups = {cluster_of(world, each).security_group for each in (one, other)}
    assert groups == world.cloud.security_groups.keys()
    members = [world.cloud.members(each) for each in groups]
    assert [len(each) for each in members] == [2, 2]
    assert not set.intersection(*members)


async def test_later_workers_get_the_same_group(world: World) -> None:
    head, agent, workers = await with_cluster(world, 2)

    world.cloud.end(workers[0].instance_id)
    await world.provisioner.clusters.scale(head.lease_id, 3)
    await joined(world, 2, [agent.instance_id, workers[1].instance_id])

    assert len(world.cloud.members(only_group(world).group_id)) == 4
    assert len(world.cloud.of("create_security_group")) == 1


async def test_no_worker_is_launched_before_the_group_is_attached(world: World) -> None:
    head, _ = await world.ready()
    gate = world.cloud.hold("set_security_groups")
    await begin(world, head, 2)
    await world.watch_passes(2)

    assert len(world.cloud.requests()) == 1
    assert {x.state for x in live_workers(world, head)} == {LeaseState.WAITING}
    gate.set()
    await until(lambda: len(world.cloud.running()) == 3, "workers")


async def test_a_server_without_workers_has_no_group(world: World) -> None:
    await world.restart(limits=Limits(user=Bounds(servers=3)))
    head, _ = await world.ready()
    await world.complete_passes(2)
    with pytest.raises(LimitReached):
        await begin(world, head, 3)
    await world.complete_passes(2)
    assert not any(world.cloud.of(name) for name in CALLS)


# --- a hub that is killed between the calls --------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True])
async def test_a_hub_that_is_killed_meanwhile_makes_no_second_group(
    world: World, call: str, after: bool
) -> None:
    head, agent = await world.ready()
    world.cloud.hold(call, after=after)
    await begin(world, head, 2)
    await until(lambda: world.cloud.of(call), call)
    await world.kill()
    await world.start(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    await agent.heartbeat()
    await joined(world, 2, [agent.instance_id])

    assert len(world.cloud.members(only_group(world).group_id)) == 3
    assert cluster_of(world, head).security_group == only_group(world).group_id


async def test_a_hub_that_is_killed_while_it_deletes_the_group_deletes_it_later(
    world: World,
) -> None:
    head, agent, _ = await with_cluster(world, 1)
    world.silence_agents()
    world.cloud.hold("delete_security_group")
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_security_group"), "the deletion")
    await world.kill()
    await world.start(recovery_grace=0.05)
    assert world.provisioner.take_up("ada", "", head.lease_id) is not None
    await agent.heartbeat()

    await gone(world)
    assert cluster_of(world, head).security_group == ""


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True])
async def test_throttled_calls_are_repeated(world: World, call: str, after: bool) -> None:
    head, agent = await world.ready()
    world.cloud.fail(call, THROTTLED, 2, after=after)
    await begin(world, head, 2)
    await after_pauses(world)
    await joined(world, 2, [agent.instance_id])

    assert len(world.cloud.members(only_group(world).group_id)) == 3
    assert cluster_of(world, head).stopped_because == ""


@pytest.mark.parametrize("call", CALLS)
async def test_a_cluster_whose_group_is_denied_ends_and_says_why(world: World, call: str) -> None:
    head, agent = await world.ready()
    world.cloud.fail(call, DENIED)
    await begin(world, head, 2)
    await after_pauses(world)

    cluster = cluster_of(world, head)
    assert cluster.workers == 0
    assert "configs/clusters-policy.json" in cluster.stopped_because
    assert workers_of(world, head) == []
    assert world.provisioner.clusters.last_failure(world.now(head)) == cluster.stopped_because
    assert world.cloud.running() == [agent.instance_id]
    assert world.cloud.security_groups == {}
    assert world.now(head).state is LeaseState.READY


async def test_a_cluster_can_be_tried_again_once_its_group_is_allowed(world: World) -> None:
    head, agent = await world.ready()
    world.cloud.fail("create_security_group", DENIED)
    await begin(world, head, 1)
    await after_pauses(world)
    await begin(world, head, 1)
    await joined(world, 1, [agent.instance_id])

    assert cluster_of(world, head).stopped_because == ""


# --- deleted ---------------------------------------------------------------------------------


async def test_it_is_detached_and_deleted_once_the_cluster_is_stopped(world: World) -> None:
    head, agent, _ = await with_cluster(world)
    world.silence_agents()

    await world.provisioner.clusters.stop(head.lease_id)
    await gone(world)

    assert groups_of(world, agent.instance_id) == NOTEBOOKS
    assert world.now(head).state is LeaseState.READY


async def test_it_is_deleted_with_its_server(world: World) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()

    await world.stop(head)
    await gone(world)
    calls = len(world.cloud.of("delete_security_group"))
    await after_pauses(world)
    assert len(world.cloud.of("delete_security_group")) == calls, "once is enough"


@pytest.mark.parametrize("after_stop", [LINGER, STOP], ids=["linger", "stop"])
async def test_an_instance_that_is_kept_for_its_user_loses_the_group(
    world: World, after_stop: object
) -> None:
    head, agent = await ready(world, after_stop)  # type: ignore[arg-type]
    await begin(world, head, 1)
    [worker] = await joined(world, 1, [agent.instance_id])
    world.silence_agents()
    await end_in_order(world, head, agent)
    await gone(world)

    assert groups_of(world, agent.instance_id) == NOTEBOOKS
    assert world.cloud.machines[worker.instance_id].ended is not None


async def test_a_group_that_is_still_in_use_is_deleted_later(world: World) -> None:
    head, _, _ = await with_cluster(world)
    world.silence_agents()
    world.cloud.fail("delete_security_group", IN_USE, 3)

    await world.stop(head)
    await after_pauses(world, 6)

    assert world.cloud.security_groups == {}
    assert len(world.cloud.of("delete_security_group")) == 4


async def test_no_group_is_deleted_while_a_worker_is_left(world: World) -> None:
    head, _, _ = await with_cluster(world, 1)
    await world.provisioner.clusters.stop(head.lease_id)
    await world.watch_passes(2)
    assert not world.cloud.of("delete_security_group")
    assert [x.state for x in workers_of(world, head)] == [LeaseState.ENDING]


async def test_a_cluster_that_begins_while_the_last_one_is_removed_has_another_group(
    world: World,
) -> None:
    head, agent, _ = await with_cluster(world, 1)
    world.silence_agents()
    before = only_group(world).group_id
    gate = world.cloud.hold("delete_security_group")
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_security_group"), "the deletion")

    await begin(world, head, 2)
    await world.watch_passes(1)
    assert world.cloud.running() == [agent.instance_id]
    gate.set()
    await joined(world, 2, [agent.instance_id])

    group = only_group(world).group_id
    assert group != before
    assert len(world.cloud.members(group)) == 3


async def test_a_cluster_that_begins_before_the_last_group_could_be_deleted_is_connected(
    world: World,
) -> None:
    """EC2 does not delete a group for as long as an instance in it shuts down."""
    head, agent, _ = await with_cluster(world, 1)
    world.silence_agents()
    world.cloud.fail("delete_security_group", IN_USE)
    await world.provisioner.clusters.stop(head.lease_id)
    await until(lambda: world.cloud.of("delete_security_group"), "the refusal")
    assert groups_of(world, agent.instance_id) == NOTEBOOKS

    await begin(world, head, 2)
    workers = await joined(world, 2, [agent.instance_id])
    group = only_group(world).group_id
    for each in (agent, *workers):
        assert group in groups_of(world, each.instance_id)


# --- garbage collection ----------------------------------------------------------------------


def left_over(world: World, group_id: str, lease_id: str, **changes: str) -> None:
    tags: Mapping[str, str] = {HUB: "hub", STORE: world.store.store_id, LEASE: lease_id} | changes
    world.cloud.security_groups[group_id] = SecurityGroup(group_id, group_name(lease_id), tags)


async def scans(world: World, number: int = 2) -> None:
    before = len(world.cloud.of("list_security_groups"))
    await until(
        lambda: len(world.cloud.of("list_security_groups")) > before + number, "scans for groups"
    )


async def test_a_group_of_no_open_cluster_is_deleted_when_it_is_old(world: World) -> None:
    await world.restart(reap_interval=5.0)
    head, _ = await world.ready()
    left_over(world, "sg-lost", "lease-lost")
    left_over(world, "sg-late", head.lease_id)  # its cluster ended while the group was made
    left_over(world, "sg-others", "lease-others", **{STORE: "other"})
    await scans(world)
    world.clock.advance(GRACE - 1)
    await scans(world)
    assert len(world.cloud.security_groups) == 3

    world.clock.advance(1)
    await until(lambda: world.cloud.security_groups.keys() == {"sg-others"}, "deleted")
    await scans(world)
    assert world.cloud.security_groups.keys() == {"sg-others"}


async def test_the_group_of_an_open_cluster_stays(world: World) -> None:
    await world.restart(reap_interval=5.0)
    await with_cluster(world, 1)
    await scans(world)
    world.clock.advance(2 * GRACE)
    await scans(world, 4)
    assert len(world.cloud.security_groups) == 1
    assert not world.cloud.of("delete_security_group")


async def test_a_hub_that_may_not_list_groups_deletes_what_else_is_left(world: World) -> None:
    world.cloud.fail("list_security_groups", DENIED, 1000)
    await world.restart(reap_interval=5.0)
    left_over(world, "sg-lost", "lease-lost")
    tags = {HUB: "hub", STORE: world.store.store_id}
    world.cloud.interfaces["eni-1"] = Interface("eni-1", "available", None, tags)
    await scans(world)
    world.clock.advance(GRACE)
    await until(lambda: not world.cloud.interfaces, "the interface deleted")
    assert world.cloud.security_groups.keys() == {"sg-lost"}

"""Which servers may have a cluster, and what of their home its workers get."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.config import Options, validate_options
from ec2spawner.core.profiles.choices import OptionsRefused
from ec2spawner.hub.spawn.cluster_request import max_workers, wanted_cluster
from ec2spawner.provisioner.clusters.clusters import CannotCluster
from ec2spawner.provisioner.clusters.groups import group_name
from ec2spawner.provisioner.model.leases.cluster import Cluster
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import HomeMount
from tests.unit.provisioner.world import SPEC, World
from tests.user_accounts import fake_user

pytestmark = pytest.mark.virtual_time

CONFIGURED: dict[str, Any] = {
    "region": "us-east-1",
    "subnets": ["subnet-a", "subnet-b"],
    "security_groups": ["sg-0123456789abcdef0"],
    "image": "ami-0a1b2c3d",
    "profile_list": [{"display_name": "T4", "slug": "t4", "instance_types": ["g4dn.xlarge"]}],
}
SHARED = {"kind": "efs", "file_system": "fs-0123456789abcdef0"}
EFS = HomeMount(kind="efs", file_system="fs-0123456789abcdef0", directory="homes/ada")


def options_with(**changes: Any) -> Options:
    return validate_options(
        {**CONFIGURED, "clusters": {"max_workers": 2}, **changes}, cleanup_servers=False, environ={}
    )


async def wanted(world: World, options: Options, head: Lease) -> Cluster:
    """What the hub makes of a call for one worker. Raises `CannotCluster`."""
    running: Any = SimpleNamespace(options=options)
    spawner = EC2Spawner(user=fake_user(head.user))
    url = "http://hub.test/hub/api"
    return await wanted_cluster(running, world.provisioner, spawner, head, url, None, 1)


async def test_a_hub_without_clusters_and_a_server_without_groups_say_so(world: World) -> None:
    head, _ = await world.ready()
    without, options = options_with(clusters={}), options_with()
    with pytest.raises(CannotCluster, match="this hub allows no clusters"):
        await wanted(world, without, head)
    assert max_workers(without, head) == 0
    ungrouped = replace(head, spec=replace(SPEC, security_groups=()))
    with pytest.raises(CannotCluster, match="default security group"):
        await wanted(world, options, ungrouped)
    assert max_workers(options, ungrouped) == 0
    assert (await wanted(world, options, head)).workers == 1
    assert max_workers(options, head) == 2


async def test_a_home_on_efs_is_read_only_for_workers_and_a_volume_is_not_theirs(
    world: World,
) -> None:
    head, _ = await world.ready(home_kind="efs", mounts=Mounts(efs=EFS))
    cluster = await wanted(world, options_with(home=SHARED), head)
    assert cluster.mounts.efs == EFS.model_copy(update={"read_only": True})
    head, _ = await world.ready("bea", home_kind="ebs")
    since_then_on_efs = options_with(home=SHARED)
    assert (await wanted(world, since_then_on_efs, head)).mounts.efs is None


async def test_workers_are_charged_to_no_other_payer_than_the_server(world: World) -> None:
    """Also where the user may no longer pay, and the default is a group."""
    head, _ = await world.ready()
    options = options_with(payers={"user": False, "project": {"nlp": {"users": [head.user]}}})
    with pytest.raises(OptionsRefused, match="may not pay for it any more"):
        await wanted(world, options, head)
    assert (await wanted(world, options, replace(head, payer="project:nlp"))).workers == 1


@pytest.mark.parametrize("close", [True, False])
async def test_workers_are_in_the_placement_group_of_their_server_where_the_profile_asks_for_one(
    world: World, close: bool
) -> None:
    head, _ = await world.ready()
    [profile] = CONFIGURED["profile_list"]
    options = options_with(
        profile_list=[profile | {"placement_group": "cluster"} if close else profile]
    )
    spec = (await wanted(world, options, head)).spec
    assert spec.instance_types == ("g4dn.xlarge",)
    assert spec.placement_group == (group_name(head.lease_id) if close else "")

"""Turns what a user wants of a cluster into what the provisioner keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...core.profiles.placement import fits_cluster_placement
from ...provisioner.clusters.clusters import CannotCluster
from ...provisioner.clusters.groups import group_name
from ...provisioner.model.cloud.launch import LaunchSpec
from ...provisioner.model.leases.cluster import Cluster
from ...provisioner.model.leases.lease import Lease
from ...provisioner.model.leases.mounts import Mounts
from ...provisioner.model.shared_values import shared
from ...provisioner.provisioner import Provisioner
from ...wire import JOIN, ClusterJoin
from ..app.service import HubService
from ..security.sealed_start import NotebookStart
from .allowed_profiles import choose, payer_from
from .idle_policy import policy_of
from .launch_spec import current_image, launch_spec
from .lease_request import Server, mounts_of
from .server_options import options_for_page
from .user_environment import without_hub_variables

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

COMMAND: Final = ("python3", "-P", "-m", "ec2spawner.cluster_worker")
"""Run by the Python of the image's agent, which is the first on the PATH of its notebooks."""


async def wanted_cluster(
    running: HubService,
    provisioner: Provisioner,
    spawner: Spawner,
    head: Lease,
    hub_api_url: str,
    profile: str | None,
    workers: int,
) -> Cluster:
    """Workers of a profile in the zone of the server, with its image, payer and price limits.

    Raises `CannotCluster` with the reason in words, `OptionsRefused`, `ProfileListError` and
    `SpawnError`.
    """
    options = await options_for_page(running.options, spawner)
    _check(options, head, workers)
    sent = {"profile": profile or head.profile, "payer": payer_from(head, options, spawner)}
    choice = await choose(options, head.user, spawner, sent)
    image = head.image or await current_image(provisioner)
    spec = launch_spec(
        choice, _subnets(provisioner, head), image, options, provisioner, hub_api_url
    )
    if choice.profile.placement_group:
        spec = _close_together(spec, head, choice.profile)
    idle = await policy_of(options, provisioner, spawner, choice.profile, None, choice.payer)
    return Cluster(
        workers=workers,
        idle_seconds=idle.server_seconds,
        engine="",
        profile=choice.profile.slug,
        profile_name=choice.profile.display_name,
        spec=shared(spec),
        mounts=_mounts(head, options, choice),
    )


def joining(
    running: HubService, cluster: Cluster, join: ClusterJoin, environment: Mapping[str, str]
) -> Cluster:
    """The same with what its workers join, in the environment of the user's servers. They get no
    token of the hub or of the notebook."""
    start = NotebookStart(
        environment={**without_hub_variables(environment), JOIN: join.model_dump_json()},
        command=list(COMMAND),
        api_token="",
        base_url="/",
    )
    return replace(
        cluster, engine=join.engine, address=join.address, sealed_start=running.seal.close(start)
    )


def max_workers(options: Options, head: Lease) -> int:
    """How many workers a cluster of this server may have; 0 where it may have none."""
    return 0 if _reason_against(options, head) else options.clusters.max_workers


def _check(options: Options, head: Lease, workers: int) -> None:
    if reason := _reason_against(options, head):
        raise CannotCluster(reason)
    most = options.clusters.max_workers
    if workers > most:
        raise CannotCluster(f"a cluster has at most {most} workers on this hub")


def _reason_against(options: Options, head: Lease) -> str:
    """Why this server may have no cluster, in words; empty where it may have one."""
    if not options.clusters.max_workers:
        return f"this hub allows no clusters; ask {options.contact} to set c.EC2Spawner.clusters"
    if options.image.container:
        return "servers in containers have no clusters"
    if head.mounts.temporary_home:
        return "a temporary server has no cluster"
    if not head.spec.security_groups:
        return (
            "this server was started in the default security group of its network, where servers "
            "of others could reach its workers; stop it and start it again"
        )
    return ""


def _subnets(provisioner: Provisioner, head: Lease) -> tuple[str, ...]:
    """Those in the zone of the server: traffic between zones costs money and time."""
    instance = provisioner.instance(head.instance_id)
    here = instance.zone if instance is not None else ""
    zones = provisioner.market.zones.by_subnet
    found = tuple(x for x in provisioner.settings.subnets if zones.get(x) == here)
    if not found:
        raise CannotCluster("the zone of this server is not known yet; try again in a moment")
    return found


def _close_together(spec: LaunchSpec, head: Lease, profile: Profile) -> LaunchSpec:
    """In the placement group of the server's cluster, with the types that can be in one."""
    types = tuple(filter(fits_cluster_placement, spec.instance_types))
    if not types:
        raise CannotCluster(
            f"no machine of the profile {profile.display_name} can be in a placement group, which "
            "the profile asks for; choose another one"
        )
    return replace(spec, instance_types=types, placement_group=group_name(head.lease_id))


def _mounts(head: Lease, options: Options, choice: Choice[Profile]) -> Mounts:
    """Buckets and scratch as its servers have them. A home has one writer: on EFS it is mounted
    read-only, a volume cannot be."""
    mounts = mounts_of(Server(head.user, head.server), options, choice.profile)
    home = head.mounts.efs
    return replace(mounts, efs=home and home.model_copy(update={"read_only": True}))

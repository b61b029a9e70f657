"""Each permission that a hub needs: verified by a listing, or by a call with DryRun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..aws.ec2 import EC2Cloud
from ..config import Options
from ..core.partitions import is_aws
from ..core.profiles.profiles import InstanceType
from ..core.tags import HOME
from ..hub.spawn.user_data import user_data
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.image import Image
from ..provisioner.model.cloud.launch import DATA_DEVICES, DataVolume, LaunchSpec
from ..wire import Market
from .dry_runs import (
    COPY_HOME,
    EVENTS,
    OF_EXISTING,
    RESERVATIONS,
    DryRun,
    of_clusters,
    of_homes,
    of_instances,
    of_interfaces,
    of_launches,
)
from .facts.network import Subnet
from .finding import Finding, ok, unproved
from .hub_config import HubConfig
from .topics import Topic
from .verdicts.permissions import DRY_RUN, judge_dry_run, judge_metrics, judge_reservations
from .verdicts.refusals import POLICY, refused

T = TypeVar("T")

Ask = Callable[[DryRun], Awaitable[CloudError | None]]
"""Makes the call: EC2's error, or None if DryRun was ignored."""


async def judge_permissions(
    cloud: EC2Cloud,
    config: HubConfig,
    image: Image | None,
    types: Sequence[InstanceType],
    subnets: Sequence[Subnet],
) -> list[Finding]:
    """A finding for each action. Raises nothing of AWS's."""
    hub = config.options.hub_name

    async def ask(dry_run: DryRun) -> CloudError | None:
        return await cloud.client.dry_run(dry_run.action.removeprefix("ec2:"), **dry_run.parameters)

    (
        (listing, instances),
        (volume_listing, volumes),
        (template_listing, templates),
        (snapshot_listing, snapshots),
        (interface_listing, interfaces),
        (reservations, events),
    ) = await asyncio.gather(
        _list("ec2:DescribeInstances", cloud.list_instances(hub)),
        _list("ec2:DescribeVolumes", cloud.list_volumes(hub)),
        _list("ec2:DescribeLaunchTemplates", cloud.list_templates(hub)),
        _list("ec2:DescribeSnapshots", cloud.list_snapshots(hub)),
        _list("ec2:DescribeNetworkInterfaces", cloud.list_interfaces(hub)),
        asyncio.gather(ask(RESERVATIONS), ask(EVENTS)),
    )
    findings = [listing, volume_listing, template_listing, snapshot_listing, interface_listing]
    findings.append(judge_dry_run(EVENTS.action, events))
    findings.append(judge_reservations(reservations))
    findings += judge_metrics(config.options.cloudwatch_namespace)
    dry_runs = of_instances(instances, volumes, templates) + of_interfaces(interfaces)
    are_copied = config.options.home.named_servers == "copy"
    homes = [volume for volume in volumes if HOME in volume.tags]
    dry_runs += of_homes(hub, homes, snapshots, are_copied=are_copied)
    of_existing = (*OF_EXISTING, COPY_HOME) if are_copied else OF_EXISTING
    if missing := [action for action in of_existing if action not in {t.action for t in dry_runs}]:
        said = f"{', '.join(missing)}: the hub has made nothing yet on which to try it"
        findings.append(unproved(Topic.PERMISSION, said))
    if image is None or not subnets or not types:
        said = "not tried before image, subnets and profiles are fixed"
        findings.append(unproved(Topic.PERMISSION, said, name="permissions to launch"))
    else:
        spec = _spec(config, image, tuple(dict.fromkeys(kind.name for kind in types)), subnets)
        dry_runs += of_launches(hub, spec, subnets, templates)
    if config.options.clusters.max_workers:
        are_placed = any(profile.placement_group for profile in config.options.profiles)
        dry_runs += of_clusters(hub, subnets, are_placed=are_placed)
    # The environment and AWS's own configuration file may name another endpoint too.
    trusted = is_aws(await cloud.client.endpoint())
    return findings + await _tried(dry_runs, ask, trusted=trusted)


async def _list(action: str, listing: Awaitable[Sequence[T]]) -> tuple[Finding, Sequence[T]]:
    """A listing is its own proof; what it shows is of use to the dry runs."""
    name = f"permission {action}"
    try:
        found = await listing
    except CloudError as error:
        return refused(Topic.PERMISSION, error, POLICY, name=name), ()
    return ok(Topic.PERMISSION, "granted", name=name), found


async def _tried(dry_runs: Sequence[DryRun], ask: Ask, *, trusted: bool) -> list[Finding]:
    """The harmless dry runs first: an endpoint that is not AWS's has to honour DryRun in one of
    them before it is asked to launch or to end anything."""
    harmless = [each for each in dry_runs if each.harmless]
    others = [each for each in dry_runs if not each.harmless]
    errors = await asyncio.gather(*map(ask, harmless))
    findings = list(map(judge_dry_run, (each.action for each in harmless), errors))
    honoured = trusted or any(error is not None and error.code == DRY_RUN for error in errors)
    if None in errors or not honoured:
        said = "not tried: this endpoint has not shown that it honours DryRun"
        names = (f"permission {each.action}" for each in others)
        return findings + [unproved(Topic.PERMISSION, said, name=name) for name in names]
    errors = await asyncio.gather(*map(ask, others))
    return findings + list(map(judge_dry_run, (each.action for each in others), errors))


def _spec(
    config: HubConfig, image: Image, types: tuple[str, ...], subnets: Sequence[Subnet]
) -> LaunchSpec:
    """As the hub would launch it."""
    options = config.options
    return LaunchSpec(
        instance_types=types,
        subnets=tuple(subnet.subnet_id for subnet in subnets),
        image_id=image.image_id,
        markets=(Market.ON_DEMAND,),
        disk_gib=options.disk_gib,
        security_groups=options.security_groups,
        instance_profile=options.instance_profile,
        key_name=options.key_name,
        user_data=user_data(config.api_url, options.agent_package),
        data_volumes=_data_volumes(options),
    )


def _data_volumes(options: Options) -> tuple[DataVolume, ...]:
    """All snapshots of the configuration, as a launch template has them."""
    by_snapshot = {
        each.snapshot: DataVolume(each.snapshot, each.path) for each in options.every_data_volume
    }
    return tuple(by_snapshot.values())[: len(DATA_DEVICES)]

"""Each permission that a hub needs: verified by a listing, or by a call with DryRun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..aws.ec2 import EC2Cloud
from ..config import Options
from ..core.profiles.profiles import InstanceType
from ..core.tags import HOME
from ..hub.spawn.user_data import user_data
from ..provisioner.model.cloud import DATA_DEVICES, CloudError, DataVolume, Image, LaunchSpec
from ..wire import Market
from .dry_runs import (
    OF_EXISTING,
    RESERVATIONS,
    DryRun,
    of_homes,
    of_instances,
    of_interfaces,
    of_launches,
)
from .facts.network import Subnet
from .finding import Finding, ok, unproved
from .hub_config import HubConfig
from .topics import Topic
from .verdicts.permissions import DRY_RUN, judge_dry_run, judge_reservations
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
    listing, instances = await _list("ec2:DescribeInstances", cloud.list_instances(hub))
    volume_listing, volumes = await _list("ec2:DescribeVolumes", cloud.list_volumes(hub))
    template_listing, templates = await _list(
        "ec2:DescribeLaunchTemplates", cloud.list_templates(hub)
    )
    copy_listing, copies = await _list("ec2:DescribeSnapshots", cloud.list_snapshots(hub))
    interface_listing, interfaces = await _list(
        "ec2:DescribeNetworkInterfaces", cloud.list_interfaces(hub)
    )

    async def ask(dry_run: DryRun) -> CloudError | None:
        return await cloud.client.dry_run(dry_run.action.removeprefix("ec2:"), **dry_run.parameters)

    findings = [listing, volume_listing, template_listing, copy_listing, interface_listing]
    findings.append(judge_reservations(await ask(RESERVATIONS)))
    dry_runs = of_instances(instances, volumes, templates) + of_interfaces(interfaces)
    dry_runs += of_homes(hub, [v for v in volumes if HOME in v.tags], copies)
    if missing := [action for action in OF_EXISTING if action not in {t.action for t in dry_runs}]:
        said = f"{', '.join(missing)}: the hub has made nothing yet on which to try it"
        findings.append(unproved(Topic.PERMISSION, said))
    if image is None or not subnets or not types:
        said = "not tried before image, subnets and profiles are fixed"
        findings.append(unproved(Topic.PERMISSION, said, name="permissions to launch"))
    else:
        spec = _spec(config, image, tuple(dict.fromkeys(kind.name for kind in types)), subnets)
        dry_runs += of_launches(hub, spec, subnets, templates)
    return findings + await _tried(dry_runs, ask, trusted=not config.options.endpoint_url)


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
    findings = []
    for dry_run in sorted(dry_runs, key=lambda each: not each.harmless):
        if not (trusted or dry_run.harmless):
            said = "not tried: this endpoint has not shown that it honours DryRun"
            findings.append(unproved(Topic.PERMISSION, said, name=f"permission {dry_run.action}"))
            continue
        error = await ask(dry_run)
        trusted = error is not None and (trusted or error.code == DRY_RUN)
        findings.append(judge_dry_run(dry_run.action, error))
    return findings


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
    """All snapshots of the configuration: EC2 says of each whether it may be used."""
    volumes = [*options.data_volumes, *(v for p in options.profiles for v in p.data_volumes)]
    by_snapshot = {each.snapshot: DataVolume(each.snapshot, each.path) for each in volumes}
    return tuple(by_snapshot.values())[: len(DATA_DEVICES)]

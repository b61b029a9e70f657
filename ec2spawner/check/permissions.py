"""Each permission that a hub needs: looked at by looking, or by a call with DryRun.

What ends or changes a thing that exists is tried on a thing of this hub's, where there is one: a
policy that goes by tags says nothing about things that do not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from ..aws.account import Account, Subnet
from ..aws.ec2 import EC2Cloud
from ..core.names import client_token
from ..core.tags import HUB, INTENT, LAUNCH_KEY, STORE
from ..data import InstanceType
from ..hub.user_data import user_data
from ..provisioner.cloud import (
    GONE,
    CloudError,
    Image,
    Instance,
    LaunchRequest,
    LaunchSpec,
    Volume,
)
from ..wire import Market
from .finding import Finding, ok, unproved
from .hub_config import HubConfig
from .judge import DRY_RUN, POLICY, judge_dry_run, refused

STORE_OF_CHECK = "check"
"""In the tags of what is not made."""

T = TypeVar("T")


async def judge_permissions(
    cloud: EC2Cloud,
    account: Account,
    config: HubConfig,
    image: Image | None,
    types: Mapping[str, tuple[InstanceType, ...]],
    subnets: Sequence[Subnet],
) -> list[Finding]:
    """A finding for each action. Raises nothing of AWS's."""
    hub = config.options.hub_name
    listing, instances = await _look("ec2:DescribeInstances", cloud.list_instances(hub))
    volume_listing, volumes = await _look("ec2:DescribeVolumes", cloud.list_volumes(hub))
    findings = [listing, volume_listing]
    findings += await _of_existing(account, hub, instances, volumes)
    kinds = [kind.name for each in types.values() for kind in each]
    if image is None or not subnets or not kinds:
        said = "not tried before image, subnets and profiles are mended"
        return [*findings, unproved("permissions to launch", said)]
    spec = _spec(config, image, tuple(dict.fromkeys(kinds)), subnets)
    return findings + await _of_launches(account, hub, spec, subnets)


async def _look(action: str, listing: Awaitable[Sequence[T]]) -> tuple[Finding, Sequence[T]]:
    """A listing is its own proof; what it shows is of use to the trials."""
    name = f"permission {action}"
    try:
        found = await listing
    except CloudError as error:
        return refused(name, error, POLICY), ()
    return ok(name, "granted"), found


async def _of_existing(
    account: Account, hub: str, instances: Sequence[Instance], volumes: Sequence[Volume]
) -> list[Finding]:
    """What is done to instances and volumes of this hub, tried on one of each."""
    instance = next((i.instance_id for i in instances if i.state not in GONE), "")
    volume = next((v.volume_id for v in volumes), "")
    trials = {
        "ec2:CreateTags": lambda: account.try_tags(instance, {HUB: hub}),
        "ec2:AttachVolume": lambda: account.try_attach(volume, instance),
        "ec2:DetachVolume": lambda: account.try_detach(volume, instance),
        "ec2:TerminateInstances": lambda: account.try_terminate(instance),
    }
    findings = []
    if not instance or not volume:
        said = "this hub has no instance with a home yet on which to try it"
        return [unproved(f"permissions {', '.join(trials)}", said)]
    for action, trial in trials.items():
        error = await trial()
        findings.append(judge_dry_run(action, error))
        if error is None or (error.code != DRY_RUN and not findings[:-1]):
            # The first trial is harmless even for real: what cannot be trusted to leave DryRun a
            # trial is not asked to end an instance.
            break
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
    )


async def _of_launches(
    account: Account, hub: str, spec: LaunchSpec, subnets: Sequence[Subnet]
) -> list[Finding]:
    zones = {subnet.subnet_id: subnet.zone for subnet in subnets}
    token = client_token(Market.ON_DEMAND)
    tags = {HUB: hub, STORE: STORE_OF_CHECK, LAUNCH_KEY: STORE_OF_CHECK, INTENT: token}
    offers = ((spec.instance_types[0], spec.subnets[0]),)
    request = LaunchRequest(token, Market.ON_DEMAND, 1, spec, tags, offers)
    errors = await asyncio.gather(
        account.try_template(spec, tags),
        account.try_fleet(request, zones),
        account.try_instance(spec, spec.instance_types[0], tags),
        account.try_volume(subnets[0].zone, tags),
    )
    actions = ("CreateLaunchTemplate", "CreateFleet", "RunInstances", "CreateVolume")
    return [
        judge_dry_run(f"ec2:{action}", error) for action, error in zip(actions, errors, strict=True)
    ]

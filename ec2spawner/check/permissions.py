"""Each permission that a hub needs: looked at by looking, or by a call with DryRun.

What ends or changes a thing that exists is tried on a thing of this hub's, where there is one: a
policy that goes by tags says nothing about things that do not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ..aws.account import Account, Subnet
from ..aws.ec2 import EC2Cloud
from ..aws.templates import Template
from ..config import Options
from ..core.names import client_token
from ..core.tags import HOME, HUB, INTENT, LAUNCH_KEY, STORE
from ..data import InstanceType
from ..hub.spawn.user_data import user_data
from ..provisioner.model.cloud import (
    DATA_DEVICES,
    GONE,
    CloudError,
    DataVolume,
    Image,
    Instance,
    Interface,
    LaunchRequest,
    LaunchSpec,
    Volume,
    VolumeSnapshot,
)
from ..wire import Market
from .finding import Finding, ok, unproved
from .hub_config import HubConfig
from .verdicts import DRY_RUN, POLICY, judge_dry_run, judge_reservations, refused

STORE_OF_CHECK: Final = "check"
"""In the tags of what is not made."""

OF_EXISTING: Final = (
    "ec2:CreateTags",
    "ec2:AttachVolume",
    "ec2:DetachVolume",
    "ec2:TerminateInstances",
    "ec2:StopInstances",
    "ec2:StartInstances",
    "ec2:DeleteLaunchTemplate",
    "ec2:CreateSnapshot",
    "ec2:ModifyVolume",
    "ec2:DeleteVolume",
    "ec2:DeleteSnapshot",
    "ec2:DeleteNetworkInterface",
    "ec2:GetConsoleOutput",
)
"""What is done to things that exist, or asked about them one by one."""

T = TypeVar("T")


async def judge_permissions(
    cloud: EC2Cloud,
    account: Account,
    config: HubConfig,
    image: Image | None,
    types: Sequence[InstanceType],
    subnets: Sequence[Subnet],
) -> list[Finding]:
    """A finding for each action. Raises nothing of AWS's."""
    hub = config.options.hub_name
    listing, instances = await _list("ec2:DescribeInstances", cloud.list_instances(hub))
    volume_listing, volumes = await _list("ec2:DescribeVolumes", cloud.list_volumes(hub))
    template_listing, templates = await _list("ec2:DescribeLaunchTemplates", account.templates(hub))
    copy_listing, copies = await _list("ec2:DescribeSnapshots", cloud.list_snapshots(hub))
    interface_listing, interfaces = await _list(
        "ec2:DescribeNetworkInterfaces", account.interfaces(hub)
    )
    findings = [listing, volume_listing, template_listing, copy_listing, interface_listing]
    findings.append(judge_reservations(await account.try_reservations()))
    trials = _of_existing(account, instances, volumes, templates)
    trials += _of_interfaces(account, interfaces)
    trials += _of_homes(account, hub, [v for v in volumes if HOME in v.tags], copies)
    if missing := [action for action in OF_EXISTING if action not in {t.action for t in trials}]:
        said = "the hub has made nothing yet on which to try it"
        findings.append(unproved(f"permissions {', '.join(missing)}", said))
    if image is None or not subnets or not types:
        said = "not tried before image, subnets and profiles are fixed"
        findings.append(unproved("permissions to launch", said))
    else:
        spec = _spec(config, image, tuple(dict.fromkeys(kind.name for kind in types)), subnets)
        trials += _of_launches(account, hub, spec, subnets, templates)
    return findings + await _tried(trials, trusted=not config.options.endpoint_url)


async def _list(action: str, listing: Awaitable[Sequence[T]]) -> tuple[Finding, Sequence[T]]:
    """A listing is its own proof; what it shows is of use to the trials."""
    name = f"permission {action}"
    try:
        found = await listing
    except CloudError as error:
        return refused(name, error, POLICY), ()
    return ok(name, "granted"), found


@dataclass(frozen=True, slots=True)
class Trial:
    """A call with DryRun."""

    action: str
    ask: Callable[[], Awaitable[CloudError | None]]
    harmless: bool = False
    """It would cost nothing and hurt nobody even where DryRun is not honoured."""


async def _tried(trials: Sequence[Trial], *, trusted: bool) -> list[Finding]:
    """The harmless trials first: an endpoint that is not AWS's has to honour DryRun in one of
    them before it is asked to launch or to end anything."""
    findings = []
    for trial in sorted(trials, key=lambda each: not each.harmless):
        if not (trusted or trial.harmless):
            said = "not tried: this endpoint has not shown that it honours DryRun"
            findings.append(unproved(f"permission {trial.action}", said))
            continue
        error = await trial.ask()
        trusted = error is not None and (trusted or error.code == DRY_RUN)
        findings.append(judge_dry_run(trial.action, error))
    return findings


def _of_existing(
    account: Account,
    instances: Sequence[Instance],
    volumes: Sequence[Volume],
    templates: Sequence[Template],
) -> list[Trial]:
    """What is done to things of this hub, tried on one of each; none where one is missing."""
    living = (i for i in instances if i.state not in GONE and STORE in i.tags)
    instance = next(living, None)
    volume = next((v.volume_id for v in volumes), "")
    trials: list[Trial] = []
    if templates:
        template = templates[0].template_id
        trials.append(
            Trial("ec2:DeleteLaunchTemplate", lambda: account.try_delete_template(template))
        )
    if instance is None or not volume:
        return trials
    of_instance = instance.instance_id
    # The tag that it has: to set it again changes nothing.
    tags = {STORE: instance.tags[STORE]}
    return [
        *trials,
        Trial("ec2:CreateTags", lambda: account.try_tags(of_instance, tags), harmless=True),
        Trial("ec2:AttachVolume", lambda: account.try_attach(volume, of_instance)),
        Trial("ec2:DetachVolume", lambda: account.try_detach(volume, of_instance)),
        Trial("ec2:TerminateInstances", lambda: account.try_terminate(of_instance)),
        Trial("ec2:StopInstances", lambda: account.try_stop(of_instance)),
        Trial("ec2:StartInstances", lambda: account.try_start(of_instance)),
        Trial("ec2:GetConsoleOutput", lambda: account.try_console(of_instance), harmless=True),
    ]


def _of_interfaces(account: Account, interfaces: Sequence[Interface]) -> list[Trial]:
    """On an instance's, where there is one: EC2 deletes none that is attached."""
    if not interfaces:
        return []
    interface = min(interfaces, key=lambda each: each.attached_to is None).interface_id
    action = "ec2:DeleteNetworkInterface"
    return [Trial(action, lambda: account.try_delete_interface(interface))]


def _of_homes(
    account: Account, hub: str, homes: Sequence[Volume], copies: Sequence[VolumeSnapshot]
) -> list[Trial]:
    trials: list[Trial] = []
    if homes:
        home, tags = homes[0].volume_id, {HUB: hub, STORE: STORE_OF_CHECK}
        trials += [
            Trial("ec2:CreateSnapshot", lambda: account.try_snapshot(home, tags)),
            Trial("ec2:ModifyVolume", lambda: account.try_grow(home)),
            Trial("ec2:DeleteVolume", lambda: account.try_delete_volume(home)),
        ]
    if copies:
        copy = copies[0].snapshot_id
        trials.append(Trial("ec2:DeleteSnapshot", lambda: account.try_delete_snapshot(copy)))
    return trials


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


def _of_launches(
    account: Account,
    hub: str,
    spec: LaunchSpec,
    subnets: Sequence[Subnet],
    templates: Sequence[Template],
) -> list[Trial]:
    token = client_token(Market.ON_DEMAND)
    tags = {HUB: hub, STORE: STORE_OF_CHECK, LAUNCH_KEY: STORE_OF_CHECK, INTENT: token}
    first = spec.instance_types[0]
    request = LaunchRequest(
        token, Market.ON_DEMAND, 1, spec, tags, ((first, subnets[0].subnet_id),)
    )
    template = templates[0].name if templates else ""
    zone = subnets[0].zone
    return [
        Trial("ec2:CreateLaunchTemplate", lambda: account.try_template(spec, tags), harmless=True),
        Trial("ec2:CreateFleet", lambda: account.try_fleet(request, template)),
        Trial("ec2:RunInstances", lambda: account.try_instance(spec, first, tags)),
        Trial("ec2:CreateVolume", lambda: account.try_volume(zone, tags)),
    ]

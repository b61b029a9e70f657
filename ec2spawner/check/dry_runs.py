"""The calls with DryRun by which the check proves a hub's permissions, as rows.

What ends or changes a thing that exists is tried on a thing of this hub's, where there is one: a
policy that goes by tags says nothing about things that do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..aws.compute.instances import STOP_ON_POWER_OFF
from ..aws.compute.launch import fleet_request
from ..aws.compute.placement_groups import placement_group_request
from ..aws.compute.templates import Template, template_data, template_name
from ..aws.storage.volumes import DEVICES, copy_request
from ..aws.tags import to_ec2
from ..core.names import client_token
from ..core.tags import HUB, INTENT, LAUNCH_KEY, STORE
from ..provisioner.model.cloud.instance import GONE, Instance
from ..provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ..provisioner.model.cloud.network import Interface
from ..provisioner.model.cloud.volume import Volume, VolumeSnapshot, VolumeSpec
from ..wire import Market
from .facts.network import Subnet
from .verdicts.permissions import CREATE_GROUP, CREATE_PLACEMENT_GROUP

STORE_OF_CHECK: Final = "check"
"""In the tags of what is not made."""

MAX_VOLUME_GIB: Final = 16384
"""EBS's limit for a gp3 volume: the size to which the DryRun pretends to grow one."""

TRIAL_DISK_GIB: Final = 8
"""GiB of the volume that the DryRun pretends to create."""

OF_EXISTING: Final = (
    "ec2:CreateTags",
    "ec2:AttachVolume",
    "ec2:DetachVolume",
    "ec2:TerminateInstances",
    "ec2:StopInstances",
    "ec2:StartInstances",
    "ec2:ModifyInstanceAttribute",
    "ec2:DeleteLaunchTemplate",
    "ec2:CreateSnapshot",
    "ec2:ModifyVolume",
    "ec2:DeleteVolume",
    "ec2:DeleteSnapshot",
    "ec2:DeleteNetworkInterface",
    "ec2:GetConsoleOutput",
)
"""What is done to things that exist, or asked about them one by one."""

GROUP_OF_CHECK: Final = "ec2spawner-check"

COPY_HOME: Final = "ec2:CopyVolumes"
"""The same, where homes of named servers begin as copies."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A call with DryRun."""

    action: str
    """As an IAM policy names it, such as `ec2:CreateTags`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    harmless: bool = False
    """It would cost nothing and hurt nobody even where DryRun is not honoured."""


RESERVATIONS: Final = DryRun("ec2:DescribeReservedInstances")
"""Reading Reserved Instances, a permission that a hub does not need."""


EVENTS: Final = DryRun("ec2:DescribeInstanceStatus")
"""Reading scheduled events. Without it a hub learns of them when they happen."""


def of_instances(
    instances: Sequence[Instance], volumes: Sequence[Volume], templates: Sequence[Template]
) -> list[DryRun]:
    """What is done to things of this hub, tried on one of each; none where one is missing."""
    dry_runs = [
        DryRun("ec2:DeleteLaunchTemplate", {"LaunchTemplateId": template.template_id})
        for template in templates[:1]
    ]
    living = (i for i in instances if i.state not in GONE and STORE in i.tags)
    instance = next(living, None)
    if instance is None or not volumes:
        return dry_runs
    one, several = {"InstanceId": instance.instance_id}, {"InstanceIds": [instance.instance_id]}
    both = {**one, "VolumeId": volumes[0].volume_id}
    # The tag that it has: to set it again changes nothing.
    same = {"Resources": [instance.instance_id], "Tags": to_ec2({STORE: instance.tags[STORE]})}
    return [
        *dry_runs,
        DryRun("ec2:CreateTags", same, harmless=True),
        DryRun("ec2:AttachVolume", {**both, "Device": DEVICES[0]}),
        DryRun("ec2:DetachVolume", both),
        DryRun("ec2:TerminateInstances", several),
        DryRun("ec2:StopInstances", several),
        DryRun("ec2:StartInstances", several),
        DryRun("ec2:ModifyInstanceAttribute", {**one, **STOP_ON_POWER_OFF}),
        DryRun("ec2:GetConsoleOutput", one, harmless=True),
    ]


def of_interfaces(interfaces: Sequence[Interface]) -> list[DryRun]:
    """On an instance's, where there is one: EC2 deletes none that is attached."""
    if not interfaces:
        return []
    interface = min(interfaces, key=lambda each: each.attached_to is None).interface_id
    return [DryRun("ec2:DeleteNetworkInterface", {"NetworkInterfaceId": interface})]


def of_homes(
    hub: str, homes: Sequence[Volume], snapshots: Sequence[VolumeSnapshot], *, are_copied: bool
) -> list[DryRun]:
    """What is done to homes and their snapshots, tried on the first of each.

    `are_copied`: homes of named servers begin as copies of others.
    """
    dry_runs: list[DryRun] = []
    if homes:
        home = {"VolumeId": homes[0].volume_id}
        tags = {HUB: hub, STORE: STORE_OF_CHECK}
        if are_copied:
            copy = copy_request(homes[0], VolumeSpec(homes[0].size_gib))
            dry_runs.append(DryRun(COPY_HOME, {**copy, **_tagged(tags, "volume")}))
        dry_runs += [
            DryRun("ec2:CreateSnapshot", {**home, **_tagged(tags, "snapshot")}),
            DryRun("ec2:ModifyVolume", {**home, "Size": MAX_VOLUME_GIB}),
            DryRun("ec2:DeleteVolume", home),
        ]
    return dry_runs + [
        DryRun("ec2:DeleteSnapshot", {"SnapshotId": each.snapshot_id}) for each in snapshots[:1]
    ]


def of_clusters(hub: str, subnets: Sequence[Subnet], *, are_placed: bool) -> list[DryRun]:
    """What clusters need besides: a security group of their own, and a placement group where a
    profile asks for one. Using and deleting them is allowed by their tags, and there are none yet.
    """
    tags = {HUB: hub, STORE: STORE_OF_CHECK}
    group = placement_group_request(GROUP_OF_CHECK, tags)
    placed = [DryRun(CREATE_PLACEMENT_GROUP, group, harmless=True)] if are_placed else []
    return placed + [
        DryRun(
            CREATE_GROUP,
            {
                "GroupName": GROUP_OF_CHECK,
                "Description": "Never made",
                "VpcId": subnet.vpc_id,
                **_tagged(tags, "security-group"),
            },
            harmless=True,
        )
        for subnet in subnets[:1]
    ]


def of_launches(
    hub: str, spec: LaunchSpec, subnets: Sequence[Subnet], templates: Sequence[Template]
) -> list[DryRun]:
    """A launch of the first type in the first subnet, and what it creates.

    From one of the hub's own templates where there is one: EC2 looks for the template first.
    """
    token = client_token(Market.ON_DEMAND)
    tags = {HUB: hub, STORE: STORE_OF_CHECK, LAUNCH_KEY: STORE_OF_CHECK, INTENT: token}
    instance_type, subnet = spec.instance_types[0], subnets[0]
    offers = ((instance_type, subnet.subnet_id),)
    request = LaunchRequest(token, Market.ON_DEMAND, 1, spec, tags, offers)
    data = template_data(spec, "/dev/sda1", tags)
    new = template_name(data)
    template = {
        "LaunchTemplateName": new,
        "LaunchTemplateData": data,
        **_tagged(tags, "launch-template"),
    }
    volume = {
        "AvailabilityZone": subnet.zone,
        "Size": TRIAL_DISK_GIB,
        "VolumeType": "gp3",
        "Encrypted": True,
        **_tagged(tags, "volume"),
    }
    return [
        DryRun("ec2:CreateLaunchTemplate", template, harmless=True),
        DryRun("ec2:CreateFleet", fleet_request(request, templates[0].name if templates else new)),
        DryRun("ec2:RunInstances", _run_instances(spec, instance_type, data, tags)),
        DryRun("ec2:CreateVolume", volume),
    ]


def _run_instances(
    spec: LaunchSpec, instance_type: str, data: Mapping[str, Any], tags: Mapping[str, str]
) -> dict[str, Any]:
    """EC2 authorizes a fleet's launch as RunInstances, including image, network and role."""
    interface: dict[str, Any] = {"DeviceIndex": 0, "SubnetId": spec.subnets[0]}
    if spec.security_groups:
        interface["Groups"] = data["SecurityGroupIds"]
    copied = ("ImageId", "IamInstanceProfile", "KeyName", "MetadataOptions")
    call = {key: data[key] for key in copied if key in data}
    if spec.user_data:
        call["UserData"] = spec.user_data  # boto3 encodes this one itself
    return {
        **call,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": instance_type,
        "NetworkInterfaces": [interface],
        **_tagged(tags, "instance", "volume", "network-interface"),
    }


def _tagged(tags: Mapping[str, str], *kinds: str) -> dict[str, Any]:
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": to_ec2(tags)} for kind in kinds]}

"""Instances and volumes of `canned_ec2`: what EC2 would list, in memory, as ready XML.

An entry has what EC2 sends of a GPU instance besides what the hub reads, because the hub parses all
of it: 5 kB of XML an instance. It is rendered when the resource changes, not when it is listed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Protocol

from ec2spawner.embedded.api.protocol import EC2Error, render

STATE_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}


class Resource(Protocol):
    """What has tags and can be listed."""

    tags: dict[str, str]

    @property
    def facts(self) -> Mapping[str, str]:
        """By name of EC2's filter, what a filter compares."""

    def xml(self) -> str:
        """The entry of a listing."""


@dataclass
class CannedInstance:
    """One instance, from its launch until it is listed no more."""

    instance_id: str
    instance_type: str
    zone: str
    subnet: str
    market: str
    address: str
    image_id: str
    account: str
    root_volume: str
    launched_at: datetime
    tags: dict[str, str]
    state: str = "pending"
    ended_at: datetime | None = None
    volumes: dict[str, str] = field(default_factory=dict)
    """Device -> id of what was attached since."""
    _xml: str = ""

    @property
    def facts(self) -> Mapping[str, str]:
        return {"instance-id": self.instance_id, "instance-state-name": self.state}

    def xml(self) -> str:
        if not self._xml:
            reservation = {"OwnerId": self.account, "Instances": [self._described()]}
            self._xml = _only_item("DescribeInstances", "Reservations", reservation)
        return self._xml

    def changed(self) -> None:
        """Forget the rendered entry."""
        self._xml = ""

    def _described(self) -> dict[str, Any]:
        host = f"ip-{self.address.replace('.', '-')}.ec2.internal"
        mappings = {"/dev/sda1": self.root_volume, **self.volumes}
        described = {
            "InstanceId": self.instance_id,
            "ImageId": self.image_id,
            "InstanceType": self.instance_type,
            "State": {"Code": STATE_CODES[self.state], "Name": self.state},
            "PrivateDnsName": host,
            "PublicDnsName": "",
            "PrivateIpAddress": self.address,
            "AmiLaunchIndex": 0,
            "LaunchTime": self.launched_at,
            "Placement": {"AvailabilityZone": self.zone, "GroupName": "", "Tenancy": "default"},
            "Monitoring": {"State": "disabled"},
            "SubnetId": self.subnet,
            "VpcId": "vpc-0a1b2c3d4e5f60718",
            "Architecture": "x86_64",
            "BlockDeviceMappings": [
                _mapping(device, volume, self.launched_at, goes_with_it=device == "/dev/sda1")
                for device, volume in mappings.items()
            ],
            "ClientToken": f"fleet-{self.instance_id}",
            "EbsOptimized": False,
            "EnaSupport": True,
            "Hypervisor": "xen",
            "NetworkInterfaces": [self._interface(host)],
            "RootDeviceName": "/dev/sda1",
            "RootDeviceType": "ebs",
            "SecurityGroups": [{"GroupName": "notebooks", "GroupId": "sg-0a1b2c3d4e5f60718"}],
            "SourceDestCheck": True,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            "VirtualizationType": "hvm",
            "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2},
            "HibernationOptions": {"Configured": False},
            "MetadataOptions": {
                "State": "applied",
                "HttpTokens": "required",
                "HttpPutResponseHopLimit": 1,
                "HttpEndpoint": "enabled",
                "HttpProtocolIpv6": "disabled",
                "InstanceMetadataTags": "disabled",
            },
            "EnclaveOptions": {"Enabled": False},
            "BootMode": "uefi-preferred",
            "PlatformDetails": "Linux/UNIX",
            "UsageOperation": "RunInstances",
            "UsageOperationUpdateTime": self.launched_at,
            "PrivateDnsNameOptions": {"HostnameType": "ip-name"},
            "MaintenanceOptions": {"AutoRecovery": "default"},
            "CurrentInstanceBootMode": "uefi",
        }
        if self.market == "spot":
            described |= {"InstanceLifecycle": "spot", "SpotInstanceRequestId": "sir-1a2b3c4d"}
        if self.ended_at is not None:
            code = "Client.UserInitiatedShutdown"
            described["StateReason"] = {"Code": code, "Message": f"{code}: User initiated shutdown"}
            at = self.ended_at.strftime("%Y-%m-%d %H:%M:%S GMT")
            described["StateTransitionReason"] = f"User initiated ({at})"
        return described

    def _interface(self, host: str) -> dict[str, Any]:
        return {
            "NetworkInterfaceId": f"eni-{self.instance_id.removeprefix('i-')}",
            "Attachment": {
                "AttachTime": self.launched_at,
                "AttachmentId": f"eni-attach-{self.instance_id.removeprefix('i-')}",
                "DeleteOnTermination": True,
                "DeviceIndex": 0,
                "Status": "attached",
            },
            "Description": "",
            "Groups": [{"GroupName": "notebooks", "GroupId": "sg-0a1b2c3d4e5f60718"}],
            "MacAddress": "0a:1b:2c:3d:4e:5f",
            "OwnerId": self.account,
            "PrivateDnsName": host,
            "PrivateIpAddress": self.address,
            "PrivateIpAddresses": [
                {"Primary": True, "PrivateDnsName": host, "PrivateIpAddress": self.address}
            ],
            "SourceDestCheck": True,
            "Status": "in-use",
            "SubnetId": self.subnet,
            "VpcId": "vpc-0a1b2c3d4e5f60718",
            "InterfaceType": "interface",
        }


@dataclass
class CannedVolume:
    """One volume until it is deleted."""

    volume_id: str
    zone: str
    size_gib: int
    volume_type: str
    created_at: datetime
    tags: dict[str, str]
    attached_to: str = ""
    device: str = ""
    goes_with_it: bool = False
    """Deleted with the instance it came with."""
    _xml: str = ""

    @property
    def state(self) -> str:
        return "in-use" if self.attached_to else "available"

    @property
    def facts(self) -> Mapping[str, str]:
        return {
            "volume-id": self.volume_id,
            "status": self.state,
            "attachment.instance-id": self.attached_to,
        }

    def xml(self) -> str:
        if not self._xml:
            self._xml = _only_item("DescribeVolumes", "Volumes", self.described())
        return self._xml

    def changed(self) -> None:
        """Forget the rendered entry."""
        self._xml = ""

    def described(self) -> dict[str, Any]:
        """As boto3 shows it."""
        return {
            "VolumeId": self.volume_id,
            "AvailabilityZone": self.zone,
            "Size": self.size_gib,
            "VolumeType": self.volume_type,
            "SnapshotId": "",
            "State": self.state,
            "CreateTime": self.created_at,
            "Encrypted": True,
            "Iops": 3000,
            "Throughput": 125,
            "MultiAttachEnabled": False,
            "Attachments": [self.attachment()] if self.attached_to else [],
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }

    def attachment(self) -> dict[str, Any]:
        """As boto3 shows it."""
        return {
            "AttachTime": self.created_at,
            "Device": self.device,
            "InstanceId": self.attached_to,
            "State": "attached",
            "VolumeId": self.volume_id,
            "DeleteOnTermination": self.goes_with_it,
        }


def selected(resources: Iterable[Any], parameters: Mapping[str, Any], ids: str) -> list[Any]:
    """Those that a request's filters and ids name. Raises `EC2Error` for an unknown filter."""
    named = set(parameters.get(ids, ()))
    filters = parameters.get("Filters", ())
    return [
        each
        for each in resources
        if (not named or next(iter(each.facts.values())) in named)
        and all(_matches(each, one["Name"], one["Values"]) for one in filters)
    ]


def _matches(resource: Resource, name: str, values: Sequence[str]) -> bool:
    if name == "tag-key":
        return any(key in values for key in resource.tags)
    if name.startswith("tag:"):
        found = resource.tags.get(name.removeprefix("tag:"))
    elif name in resource.facts:
        found = resource.facts[name]
    else:
        raise EC2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
    return found is not None and any(_is_like(found, value) for value in values)


def _is_like(found: str, wanted: str) -> bool:
    return found == wanted or ("*" in wanted and fnmatchcase(found, wanted))


def page_of(
    found: Sequence[Any], parameters: Mapping[str, Any]
) -> tuple[Sequence[Any], str | None]:
    """One page, and the token of the next; None on the last. Without MaxResults, all."""
    size = parameters.get("MaxResults")
    token = parameters.get("NextToken")
    first = int(base64.b64decode(token)) if token else 0
    if size is None:
        return found[first:], None
    last = first + int(size)
    following = base64.b64encode(str(last).encode()).decode() if last < len(found) else None
    return found[first:last], following


def _mapping(device: str, volume: str, at: datetime, *, goes_with_it: bool) -> dict[str, Any]:
    return {
        "DeviceName": device,
        "Ebs": {
            "AttachTime": at,
            "DeleteOnTermination": goes_with_it,
            "Status": "attached",
            "VolumeId": volume,
        },
    }


_ITEMS = re.compile(r"<(?:reservationSet|volumeSet)>(.*)</(?:reservationSet|volumeSet)>", re.DOTALL)


def _only_item(action: str, member: str, entry: Mapping[str, Any]) -> str:
    """The XML of one entry, as botocore's model of the action has it."""
    found = _ITEMS.search(render(action, {member: [entry]}).decode())
    assert found is not None
    return found[1]


def now() -> datetime:
    """UTC in whole seconds, as EC2 has it."""
    return datetime.now(UTC).replace(microsecond=0)

"""Calls for a comparison of two EC2 endpoints: a small account, made and read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Made = Mapping[str, Any]
"""What earlier steps have kept, by name."""


@dataclass(frozen=True)
class Step:
    """One call, with parameters that may name what earlier calls have made."""

    service: str
    operation: str
    parameters: Callable[[Made], dict[str, Any]]
    keeps: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    """Fields of the answer that are no part of the contract, with a reason beside the step."""


def ec2(operation: str, parameters: Callable[[Made], dict[str, Any]], **more: Any) -> Step:
    return Step("ec2", operation, parameters, **more)


TAGS = [{"Key": "ec2spawner:hub", "Value": "contract"}]
USER_DATA = base64.b64encode(b"#!/bin/sh\n").decode()


def tagged(kind: str) -> dict[str, Any]:
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": TAGS}]}


def by(name: str, value: str) -> dict[str, Any]:
    return {"Filters": [{"Name": name, "Values": [value]}]}


def steps() -> list[Step]:
    """In order."""
    rule = {"IpProtocol": "tcp", "FromPort": 8888, "ToPort": 8888}
    template = {
        "InstanceType": "g5.xlarge",
        "UserData": USER_DATA,
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": TAGS}],
    }
    return [
        ec2(
            "create_vpc",
            lambda made: {"CidrBlock": "10.9.0.0/16", **tagged("vpc")},
            keeps={"vpc": lambda answer: answer["Vpc"]["VpcId"]},
        ),
        ec2(
            "create_subnet",
            lambda made: {
                "VpcId": made["vpc"],
                "CidrBlock": "10.9.1.0/24",
                "AvailabilityZone": "us-east-1b",
            },
            keeps={"subnet": lambda answer: answer["Subnet"]["SubnetId"]},
        ),
        ec2("describe_subnets", lambda made: {"SubnetIds": [made["subnet"]]}),
        ec2("describe_subnets", lambda made: by("vpc-id", made["vpc"])),
        ec2("describe_vpcs", lambda made: {"VpcIds": [made["vpc"]]}),
        ec2("describe_route_tables", lambda made: by("vpc-id", made["vpc"])),
        ec2("describe_network_acls", lambda made: by("vpc-id", made["vpc"])),
        ec2(
            "create_security_group",
            lambda made: {"GroupName": "notebooks", "Description": "x", "VpcId": made["vpc"]},
            keeps={"group": lambda answer: answer["GroupId"]},
        ),
        ec2(
            "authorize_security_group_ingress",
            lambda made: {
                "GroupId": made["group"],
                "IpPermissions": [{**rule, "UserIdGroupPairs": [{"GroupId": made["group"]}]}],
            },
        ),
        ec2("describe_security_groups", lambda made: {"GroupIds": [made["group"]]}),
        ec2("create_key_pair", lambda made: {"KeyName": "contract"}, without=SECRETS),
        ec2("describe_key_pairs", lambda made: {"KeyNames": ["contract"]}, without=SECRETS),
        ec2("describe_key_pairs", lambda made: {"KeyNames": ["nobodys"]}),
        ec2(
            "create_launch_template",
            lambda made: {
                "LaunchTemplateName": "contract",
                "LaunchTemplateData": {**template, "SecurityGroupIds": [made["group"]]},
                **tagged("launch-template"),
            },
            keeps={"template": lambda answer: answer["LaunchTemplate"]["LaunchTemplateId"]},
        ),
        ec2(
            "create_launch_template",
            lambda made: {"LaunchTemplateName": "contract", "LaunchTemplateData": template},
        ),
        ec2("describe_launch_templates", lambda made: by("tag:ec2spawner:hub", "contract")),
        ec2(
            "describe_launch_template_versions",
            lambda made: {"LaunchTemplateId": made["template"], "Versions": ["1"]},
        ),
        ec2(
            "create_volume",
            lambda made: {
                "AvailabilityZone": "us-east-1b",
                "Size": 20,
                "VolumeType": "gp3",
                **tagged("volume"),
            },
            keeps={"volume": lambda answer: answer["VolumeId"]},
            without=STATES,
        ),
        ec2(
            "create_tags",
            lambda made: {"Resources": [made["volume"]], "Tags": [{"Key": "Name", "Value": "x"}]},
        ),
        ec2("describe_volumes", lambda made: by("tag:Name", "x"), without=STATES),
        ec2(
            "create_network_interface",
            lambda made: {"SubnetId": made["subnet"], "Groups": [made["group"]]},
            keeps={"eni": lambda answer: answer["NetworkInterface"]["NetworkInterfaceId"]},
            without=ADDRESSES,
        ),
        ec2(
            "describe_network_interfaces",
            lambda made: {"NetworkInterfaceIds": [made["eni"]]},
            without=ADDRESSES,
        ),
        ec2("delete_network_interface", lambda made: {"NetworkInterfaceId": made["eni"]}),
        ec2("delete_volume", lambda made: {"VolumeId": made["volume"]}),
        ec2("delete_volume", lambda made: {"VolumeId": made["volume"]}),
        ec2("delete_launch_template", lambda made: {"LaunchTemplateId": made["template"]}),
        ec2("describe_availability_zones", lambda made: {}),
        Step("sts", "get_caller_identity", lambda made: {}, without=frozenset({"UserId", "Arn"})),
        Step("iam", "get_role", lambda made: {"RoleName": "nobodys"}),
        Step("iam", "get_instance_profile", lambda made: {"InstanceProfileName": "nobodys"}),
    ]


SECRETS = frozenset({"KeyFingerprint", "KeyMaterial", "KeyPairId"})
"""Random."""
STATES = frozenset({"State", "Attachments"})
"""moto's take no time."""
ADDRESSES = frozenset({"MacAddress", "PrivateIpAddress", "PrivateIpAddresses", "PrivateDnsName"})
"""moto draws them at random."""

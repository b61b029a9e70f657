"""Security groups are made, attached and deleted under EC2's rules."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from ec2spawner.embedded.iam.hub_policy import cluster_statements

from .conftest import Laboratory

NOBODYS = "sg-0123456789abcdef0"
ALL_PORTS = {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535}


def error(call: Any, /, **parameters: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return str(refused.value.response["Error"]["Code"])


def unchecked(lab: Laboratory) -> Any:
    """A client that leaves out what EC2 requires."""
    return boto3.client(
        "ec2",
        region_name=lab.facts.region,
        endpoint_url=lab.facts.ec2_endpoint,
        aws_access_key_id=lab.facts.admin_access_key_id,
        aws_secret_access_key=lab.facts.admin_secret_access_key,
        config=Config(parameter_validation=False),
    )


@pytest.fixture
def vpc(lab: Laboratory) -> str:
    [subnet] = lab.ec2.describe_subnets(SubnetIds=lab.facts.subnets[:1])["Subnets"]
    return str(subnet["VpcId"])


@pytest.fixture
def group(lab: Laboratory, vpc: str) -> Any:
    """Makes groups."""

    def make(**more: Any) -> str:
        asked = {"GroupName": f"g-{uuid4()}", "Description": "x", "VpcId": vpc, **more}
        return str(lab.ec2.create_security_group(**asked)["GroupId"])

    return make


def members(group_id: str) -> dict[str, Any]:
    rule = {**ALL_PORTS, "UserIdGroupPairs": [{"GroupId": group_id}]}
    return {"GroupId": group_id, "IpPermissions": [rule]}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"GroupName": "x" * 256}, "InvalidParameterValue"),
        ({"GroupName": "größer"}, "InvalidParameterValue"),
        ({"GroupName": "tab\t"}, "InvalidParameterValue"),
        ({"GroupName": "sg-mine"}, "InvalidParameterValue"),
        ({"GroupName": "default"}, "InvalidGroup.Reserved"),
        ({"Description": "x" * 256}, "InvalidParameterValue"),
        ({"Description": "it's"}, "InvalidParameterValue"),
        ({"VpcId": None}, "VPCIdNotSpecified"),
        ({"VpcId": "vpc-0123456789abcdef0"}, "InvalidVpcID.NotFound"),
        ({"GroupName": None}, "MissingParameter"),
    ],
)
def test_a_group_that_cannot_be(
    lab: Laboratory, vpc: str, asked: dict[str, Any], code: str
) -> None:
    possible = {"GroupName": f"g-{uuid4()}", "Description": "x", "VpcId": vpc}
    parameters = {k: v for k, v in {**possible, **asked}.items() if v is not None}
    client = unchecked(lab)
    assert error(client.create_security_group, **parameters) == code
    assert error(client.create_security_group, **parameters, DryRun=True) == code


def test_a_name_is_used_once_in_a_vpc(lab: Laboratory, vpc: str, group: Any) -> None:
    group(GroupName="once")
    again = {"GroupName": "once", "Description": "x", "VpcId": vpc}
    assert error(lab.ec2.create_security_group, **again) == "InvalidGroup.Duplicate"
    assert error(lab.ec2.create_security_group, **again, DryRun=True) == "InvalidGroup.Duplicate"
    dry = partial(lab.ec2.create_security_group, **{**again, "GroupName": "never"}, DryRun=True)
    assert error(dry) == "DryRunOperation"
    filters = [{"Name": "group-name", "Values": ["once", "never"]}]
    assert len(lab.ec2.describe_security_groups(Filters=filters)["SecurityGroups"]) == 1


def test_a_rule_is_there_once_and_names_groups_that_exist(lab: Laboratory, group: Any) -> None:
    own, authorize = group(), lab.ec2.authorize_security_group_ingress
    authorize(**members(own))
    assert error(authorize, **members(own)) == "InvalidPermission.Duplicate"
    assert error(authorize, **members(NOBODYS)) == "InvalidGroup.NotFound"
    of_nobody = {**ALL_PORTS, "UserIdGroupPairs": [{"GroupId": NOBODYS}]}
    code = error(authorize, GroupId=own, IpPermissions=[of_nobody])
    assert code == "InvalidGroup.NotFound"


def test_a_running_instance_changes_its_groups(lab: Laboratory, group: Any) -> None:
    instance, new = lab.run(), group()
    lab.wait_for(instance, "running")
    modify = partial(lab.ec2.modify_instance_attribute, InstanceId=instance)
    modify(Groups=[lab.facts.hub_security_group, new])
    shown = lab.instance(instance)
    for groups in (shown["SecurityGroups"], shown["NetworkInterfaces"][0]["Groups"]):
        assert {each["GroupId"] for each in groups} == {lab.facts.hub_security_group, new}
    modify(Groups=[new])
    assert [x["GroupId"] for x in lab.instance(instance)["SecurityGroups"]] == [new]

    assert error(modify, Groups=[NOBODYS]) == "InvalidGroup.NotFound"
    assert error(modify, Groups=[NOBODYS], DryRun=True) == "InvalidGroup.NotFound"
    assert error(modify, Groups=[new], DryRun=True) == "DryRunOperation"
    many = [group() for _ in range(6)]
    assert error(modify, Groups=many) == "SecurityGroupsPerInterfaceLimitExceeded"
    both = {"Groups": [new], "InstanceInitiatedShutdownBehavior": {"Value": "stop"}}
    assert error(modify, **both) == "InvalidParameterCombination"
    other = lab.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    assert error(modify, Groups=[group(VpcId=other)]) == "InvalidParameter"
    assert [x["GroupId"] for x in lab.instance(instance)["SecurityGroups"]] == [new]
    lab.ec2.terminate_instances(InstanceIds=[instance])
    assert error(modify, Groups=[new]) == "IncorrectInstanceState"


def test_a_group_in_use_stays(lab: Laboratory, group: Any) -> None:
    delete = lab.ec2.delete_security_group
    used, named, default = group(), group(), lab.facts.hub_security_group
    instance = lab.run(SecurityGroupIds=[used])
    lab.wait_for(instance, "running")
    lab.ec2.authorize_security_group_ingress(**members(used))
    by = {**ALL_PORTS, "UserIdGroupPairs": [{"GroupId": named}]}
    lab.ec2.authorize_security_group_ingress(GroupId=used, IpPermissions=[by])
    for each in (used, named):
        assert error(delete, GroupId=each) == "DependencyViolation"
        assert error(delete, GroupId=each, DryRun=True) == "DependencyViolation"
    assert error(delete, GroupId=default) == "CannotDelete"
    assert error(delete, GroupId=NOBODYS) == "InvalidGroup.NotFound"

    lab.ec2.terminate_instances(InstanceIds=[instance])
    lab.wait_for(instance, "terminated")
    delete(GroupId=used)  # a rule that names its own members is none
    delete(GroupId=named)
    assert error(delete, GroupId=used) == "InvalidGroup.NotFound"


def test_an_interface_that_is_attached_to_nothing_uses_its_group(
    lab: Laboratory, group: Any
) -> None:
    used = group()
    made = lab.ec2.create_network_interface(SubnetId=lab.facts.subnets[0], Groups=[used])
    assert error(lab.ec2.delete_security_group, GroupId=used) == "DependencyViolation"
    interface = made["NetworkInterface"]["NetworkInterfaceId"]
    lab.ec2.delete_network_interface(NetworkInterfaceId=interface)
    lab.ec2.delete_security_group(GroupId=used)


# --- what a hub's key may do -----------------------------------------------------------------

HUB, OTHER, DENIED = "demo", "another", "UnauthorizedOperation"


@pytest.fixture
def hub(lab: Laboratory) -> Any:
    """With a key that may have clusters."""
    return of_key(lab, cluster_statements(lab.facts.region, lab.facts.account, HUB))


def of_key(lab: Laboratory, statements: list[dict[str, Any]]) -> Any:
    key = lab.control("hub-keys", {"hub_name": HUB, "statements": statements})
    return boto3.client(
        "ec2", endpoint_url=lab.facts.ec2_endpoint, region_name=lab.facts.region, **key
    )


def tagged(hub: str, *kinds: str) -> dict[str, Any]:
    tags = [{"Key": "ec2spawner:hub", "Value": hub}]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds]}


def test_a_hub_makes_only_groups_with_its_tag(lab: Laboratory, hub: Any, vpc: str) -> None:
    asked = {"GroupName": f"g-{uuid4()}", "Description": "x", "VpcId": vpc}
    for tags in ({}, tagged(OTHER, "security-group")):
        assert error(hub.create_security_group, **asked, **tags) == DENIED
    without = of_key(lab, [])
    ours = tagged(HUB, "security-group")
    assert error(without.create_security_group, **asked, **ours) == DENIED
    assert hub.create_security_group(**asked, **ours)["GroupId"]


def test_a_hub_changes_only_its_groups(lab: Laboratory, hub: Any, group: Any) -> None:
    ours, theirs = group(**tagged(HUB, "security-group")), group()
    for call in (
        partial(hub.authorize_security_group_ingress, **members(theirs)),
        partial(hub.delete_security_group, GroupId=theirs),
        partial(hub.create_tags, Resources=[ours], Tags=[{"Key": "Name", "Value": "x"}]),
        partial(hub.revoke_security_group_egress, GroupId=ours, IpPermissions=[ALL_PORTS]),
    ):
        assert error(call) == DENIED
    hub.authorize_security_group_ingress(**members(ours))
    hub.delete_security_group(GroupId=ours)


def test_a_hub_changes_the_groups_of_its_instances_only(
    lab: Laboratory, hub: Any, group: Any
) -> None:
    new = group(**tagged(HUB, "security-group"))
    ours = lab.run(**tagged(HUB, "instance"))
    theirs = lab.run(**tagged(OTHER, "instance"))
    for each in (ours, theirs):
        lab.wait_for(each, "running")
    groups = [lab.facts.hub_security_group, new]
    change = partial(hub.modify_instance_attribute, Groups=groups)
    assert error(change, InstanceId=theirs) == DENIED
    without = of_key(lab, []).modify_instance_attribute
    assert error(without, InstanceId=ours, Groups=groups) == DENIED
    change(InstanceId=ours)

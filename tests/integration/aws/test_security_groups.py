"""The security group of a cluster: calls that can be repeated, and what EC2 says of them."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.compute import new_groups, security_groups
from ec2spawner.core.offers.launch_errors import GROUP_NOT_KNOWN_YET, ErrorClass, error_class
from ec2spawner.core.tags import HUB, LEASE, STORE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.cloud.network import SecurityGroup
from ec2spawner.wire import Market
from tests.harness import until

from .embedded_ec2 import SMALL, Embedded
from .scripted_ec2 import Reply, ScriptedEC2, error, ok

TAGS = {HUB: "class", STORE: "store-1", LEASE: "lease-1"}
SUBNETS = ok(
    "<subnetSet><item><subnetId>subnet-a</subnetId><vpcId>vpc-1</vpcId></item></subnetSet>"
)
MADE = ok("<groupId>sg-1</groupId>")
DUPLICATE = error("InvalidGroup.Duplicate", "exists")
UNKNOWN = error("InvalidGroup.NotFound", "does not exist")
UNKNOWN_TO_INTERFACES = error("InvalidSecurityGroupID.NotFound", "does not exist")
"""The error as calls about network interfaces word it."""
DONE = ok("<return>true</return>")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_groups, "PAUSES", (0.01, 0.01, 0.01))


def shown(**tags: str) -> Reply:
    items = "".join(
        f"<item><key>ec2spawner:{key}</key><value>{value}</value></item>"
        for key, value in tags.items()
    )
    return ok(
        "<securityGroupInfo><item><groupId>sg-1</groupId><groupName>cluster</groupName>"
        f"<tagSet>{items}</tagSet></item></securityGroupInfo>"
    )


async def create(cloud: EC2Cloud) -> str:
    return await cloud.create_security_group("cluster", "nodes", "subnet-a", TAGS)


async def test_a_group_is_made_with_its_tags_and_lets_its_members_in(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateSecurityGroup", MADE)
    ec2.will("AuthorizeSecurityGroupIngress", DONE)
    assert await create(cloud) == "sg-1"
    _, made, rule = ec2.calls
    assert {"GroupName": "cluster", "GroupDescription": "nodes", "VpcId": "vpc-1"}.items() <= (
        made.items()
    )
    assert made["TagSpecification.1.ResourceType"] == "security-group"
    assert {
        made[f"TagSpecification.1.Tag.{n}.Key"]: made[f"TagSpecification.1.Tag.{n}.Value"]
        for n in (1, 2, 3)
    } == TAGS
    expected = {
        "GroupId": "sg-1",
        "IpPermissions.1.IpProtocol": "tcp",
        "IpPermissions.1.FromPort": "0",
        "IpPermissions.1.ToPort": "65535",
        "IpPermissions.1.Groups.1.GroupId": "sg-1",
    }
    assert expected.items() <= rule.items()
    assert not any("IpRanges" in key for key in rule)


async def test_a_repetition_finds_the_group_and_the_rule_of_the_first_call(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateSecurityGroup", DUPLICATE)
    ec2.will("DescribeSecurityGroups", shown(hub="class", store="store-1", lease="lease-1"))
    ec2.will("AuthorizeSecurityGroupIngress", error("InvalidPermission.Duplicate", "exists"))
    assert await create(cloud) == "sg-1"


async def test_somebody_elses_group_of_that_name_is_not_used(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateSecurityGroup", DUPLICATE)
    ec2.will("DescribeSecurityGroups", shown(hub="class", store="another", lease="lease-1"))
    with pytest.raises(CloudError) as refused:
        await create(cloud)
    assert (refused.value.code, refused.value.retryable) == ("InvalidGroup.Duplicate", False)
    assert not ec2.made("AuthorizeSecurityGroupIngress")


async def test_a_group_that_is_not_listed_yet_is_asked_for_later(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateSecurityGroup", DUPLICATE)
    ec2.will("DescribeSecurityGroups", ok("<securityGroupInfo/>"))
    with pytest.raises(CloudError) as refused:
        await create(cloud)
    assert refused.value.retryable


@pytest.mark.parametrize("unknown", [UNKNOWN, UNKNOWN_TO_INTERFACES])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_group_that_ec2_does_not_know_yet(
    cloud: EC2Cloud, ec2: ScriptedEC2, times: int, unknown: Reply
) -> None:
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateSecurityGroup", MADE)
    ec2.will("AuthorizeSecurityGroupIngress", *[unknown] * times, DONE)
    ec2.will("ModifyInstanceAttribute", *[unknown] * times, DONE)
    assert await create(cloud) == "sg-1"
    await cloud.set_security_groups("i-1", ["sg-0", "sg-1"])
    calls = ec2.made("ModifyInstanceAttribute")
    assert len(calls) == times + 1
    assert {"InstanceId": "i-1", "GroupId.1": "sg-0", "GroupId.2": "sg-1"}.items() <= (
        calls[0].items()
    )


async def test_a_group_that_never_comes_is_an_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("ModifyInstanceAttribute", UNKNOWN)
    with pytest.raises(CloudError) as refused:
        await cloud.set_security_groups("i-1", ["sg-1"])
    assert refused.value.code == "InvalidGroup.NotFound"


async def test_deleted_already_is_no_error_and_in_use_is(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DeleteSecurityGroup", UNKNOWN, error("DependencyViolation", "in use"))
    await cloud.delete_security_group("sg-1")
    with pytest.raises(CloudError) as refused:
        await cloud.delete_security_group("sg-1")
    assert (refused.value.code, refused.value.retryable) == ("DependencyViolation", False)


async def test_the_hubs_groups_are_listed_by_its_tag(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeSecurityGroups", shown(hub="class"))
    assert await cloud.list_security_groups("class") == [
        SecurityGroup("sg-1", "cluster", {HUB: "class"})
    ]
    [call] = ec2.calls
    assert call["Filter.1.Name"] == f"tag:{HUB}"


# --- over the embedded EC2, with the hub's own permissions -----------------------------------


async def launched(cloud: EC2Cloud, embedded: Embedded, hub: str, *groups: str) -> str:
    """Id of a running instance with these groups."""
    spec = LaunchSpec(
        (SMALL,), embedded.subnets[:1], embedded.image_id, (Market.ON_DEMAND,), 75, groups
    )
    request = LaunchRequest(
        str(uuid4()), Market.ON_DEMAND, 1, spec, {HUB: hub, STORE: "s"}, ((SMALL, spec.subnets[0]),)
    )
    answer = await cloud.launch(request)
    while any(error_class(each.code) is ErrorClass.BUSY for each in answer.errors):
        answer = await cloud.launch(replace(request, client_token=str(uuid4())))
    [made] = answer.instances
    return made.instance_id


async def groups_of(cloud: EC2Cloud, hub: str, instance_id: str) -> tuple[str, ...]:
    [found] = await cloud.list_instances(hub, [instance_id])
    return found.security_groups


async def test_the_life_of_a_group(real: EC2Cloud, embedded: Embedded, hub: str) -> None:
    tags, subnet = {**TAGS, HUB: hub}, embedded.subnets[0]
    group = await real.create_security_group("cluster-1", "nodes", subnet, tags)
    assert await real.create_security_group("cluster-1", "nodes", subnet, tags) == group
    notebooks = embedded.security_group
    head = await launched(real, embedded, hub)
    await real.set_security_groups(head, [notebooks, group])
    worker = await launched(real, embedded, hub, notebooks, group)

    for each in (head, worker):
        assert set(await groups_of(real, hub, each)) == {notebooks, group}
    assert [x.group_id for x in await real.list_security_groups(hub)] == [group]
    [rule] = embedded.client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0][
        "IpPermissions"
    ]
    assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group]
    assert (rule["FromPort"], rule["ToPort"], rule["IpRanges"]) == (0, 65535, [])

    await real.set_security_groups(head, [notebooks])
    assert await groups_of(real, hub, head) == (notebooks,)
    with pytest.raises(CloudError) as refused:
        await real.delete_security_group(group)
    assert refused.value.code == "DependencyViolation"
    await real.terminate([head, worker])

    async def ended() -> bool:
        listed = await real.list_instances(hub)
        return {each.state for each in listed} <= {InstanceState.TERMINATED}

    await until(ended, 20, "both ended")
    await real.delete_security_group(group)
    await real.delete_security_group(group)
    assert await real.list_security_groups(hub) == []


async def test_a_new_group_is_used_once_ec2_knows_it(
    real: EC2Cloud, embedded: Embedded, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security_groups, "PAUSES", (0.05,) * 60)
    head = await launched(real, embedded, hub)
    tags, subnet = {**TAGS, HUB: hub}, embedded.subnets[0]
    embedded.control("lag", seconds=0.4)
    began = time.monotonic()
    group = await real.create_security_group("cluster-3", "nodes", subnet, tags)
    await real.set_security_groups(head, [group])
    assert time.monotonic() - began >= 0.4
    assert await groups_of(real, hub, head) == (group,)


async def test_a_launch_that_does_not_know_a_new_group_is_asked_again(
    real: EC2Cloud, embedded: Embedded, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags, subnet = {**TAGS, HUB: hub}, embedded.subnets[0]
    group = await real.create_security_group("cluster-2", "nodes", subnet, tags)
    embedded.client("ec2").delete_security_group(GroupId=group)
    spec = LaunchSpec(
        (SMALL,), (subnet,), embedded.image_id, (Market.ON_DEMAND,), 75, (group, "sg-" + "0" * 17)
    )
    request = LaunchRequest("t-1", Market.ON_DEMAND, 1, spec, tags, ((SMALL, subnet),))
    answer = await real.launch(request)
    assert [each.code for each in answer.errors] == [GROUP_NOT_KNOWN_YET]

    monkeypatch.setattr(new_groups, "NEW_SECONDS", 0.0)
    later = await real.launch(replace(request, client_token="t-2"))
    assert [each.code for each in later.errors] == ["InvalidGroup.NotFound"]


async def test_another_hubs_group_cannot_be_changed(
    real: EC2Cloud, embedded: Embedded, hub: str
) -> None:
    subnet = embedded.subnets[0]
    admin = embedded.client("ec2")
    [described] = admin.describe_subnets(SubnetIds=[subnet])["Subnets"]
    theirs = admin.create_security_group(
        GroupName="theirs", Description="x", VpcId=described["VpcId"]
    )["GroupId"]
    with pytest.raises(CloudError) as refused:
        await real.delete_security_group(theirs)
    assert refused.value.code == "UnauthorizedOperation"
    with pytest.raises(CloudError) as refused:
        await real.create_security_group("new", "nodes", subnet, {HUB: "another"})
    assert refused.value.code == "UnauthorizedOperation"
    with pytest.raises(CloudError) as refused:
        await real.create_security_group("theirs", "nodes", subnet, {HUB: hub})
    assert refused.value.code == "InvalidGroup.Duplicate"

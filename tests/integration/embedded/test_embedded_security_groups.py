"""What security groups, network ACLs and VPCs do not open is not reached: callers time out."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from .conftest import Laboratory

PORT = 8888
TIMEOUT = 1.0
"""Seconds after which an attempt to connect counts as dropped: on one machine it takes none."""

SERVER = f"{sys.executable} -u -m http.server --bind $ADDRESS {PORT}"
FIND_ADDRESS = "ADDRESS=${AWS_EC2_METADATA_SERVICE_ENDPOINT#http://}; ADDRESS=${ADDRESS%%:*}"
CALL = """{python} -c "import socket
try:
    socket.create_connection(('127.0.0.1', {port}), 1)
    print('REACHED')
except TimeoutError:
    print('DROPPED')
" """


def tcp(port: int, **source: Any) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **source}


def group(lab: Laboratory, name: str) -> str:
    """Without inbound rules; everything may leave."""
    [subnet] = lab.ec2.describe_subnets(SubnetIds=lab.facts.subnets[:1])["Subnets"]
    made = lab.ec2.create_security_group(GroupName=name, Description=name, VpcId=subnet["VpcId"])
    return str(made["GroupId"])


def connects(address: str) -> bool:
    """Whether the hub reaches the port; False only for packets that are dropped."""
    try:
        socket.create_connection((address, PORT), TIMEOUT).close()
    except TimeoutError:
        return False
    return True


def serving(lab: Laboratory, group_id: str) -> str:
    """The address of an instance with a server."""
    instance = lab.run(f"{FIND_ADDRESS}\n{SERVER}", SecurityGroupIds=[group_id])
    lab.console_says(instance, f"port {PORT}")
    return str(lab.instance(instance)["PrivateIpAddress"])


def test_members_of_the_hubs_group_are_reached(lab: Laboratory) -> None:
    assert connects(serving(lab, lab.facts.hub_security_group))


def test_a_port_that_no_rule_opens_is_dropped(lab: Laboratory) -> None:
    closed = group(lab, "closed")
    lab.ec2.authorize_security_group_ingress(
        GroupId=closed,
        IpPermissions=[
            tcp(PORT, IpRanges=[{"CidrIp": "10.0.0.0/8"}]),
            tcp(PORT + 1, UserIdGroupPairs=[{"GroupId": lab.facts.hub_security_group}]),
        ],
    )
    assert not connects(serving(lab, closed))


@pytest.mark.parametrize("source", ["group", "address"])
def test_a_rule_that_names_the_hub_opens_the_port(lab: Laboratory, source: str) -> None:
    named = group(lab, f"named-by-{source}")
    rule = (
        tcp(PORT, UserIdGroupPairs=[{"GroupId": lab.facts.hub_security_group}])
        if source == "group"
        else tcp(PORT, IpRanges=[{"CidrIp": "127.0.0.1/32"}])
    )
    lab.ec2.authorize_security_group_ingress(GroupId=named, IpPermissions=[rule])
    assert connects(serving(lab, named))


@pytest.fixture
def hubs_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_an_instance_calls_the_hub_only_where_both_groups_allow_it(
    lab: Laboratory, hubs_port: int
) -> None:
    """The hub's group admits its members; another group must be named in it."""
    outside = group(lab, "outside")
    call = CALL.format(python=sys.executable, port=hubs_port)
    lab.console_says(lab.run(call), "REACHED")
    lab.console_says(lab.run(call, SecurityGroupIds=[outside]), "DROPPED")
    admitted = [tcp(hubs_port, UserIdGroupPairs=[{"GroupId": outside}])]
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    hub = lab.facts.hub_security_group
    lab.ec2.authorize_security_group_ingress(GroupId=hub, IpPermissions=admitted)
    try:
        lab.console_says(lab.run(call, SecurityGroupIds=[outside]), "REACHED")
        lab.ec2.revoke_security_group_egress(GroupId=outside, IpPermissions=everything)
        lab.console_says(lab.run(call, SecurityGroupIds=[outside]), "DROPPED")
    finally:
        lab.ec2.revoke_security_group_ingress(GroupId=hub, IpPermissions=admitted)


def test_a_changed_rule_counts_from_the_next_boot_on(lab: Laboratory) -> None:
    late = group(lab, "late")
    instance = lab.run(f"{FIND_ADDRESS}\n{SERVER}", SecurityGroupIds=[late])
    lab.console_says(instance, f"port {PORT}")
    address = str(lab.instance(instance)["PrivateIpAddress"])
    rule = tcp(PORT, UserIdGroupPairs=[{"GroupId": lab.facts.hub_security_group}])
    lab.ec2.authorize_security_group_ingress(GroupId=late, IpPermissions=[rule])
    assert not connects(address)
    assert connects(serving(lab, late))


@pytest.fixture
def acl(lab: Laboratory) -> Iterator[str]:
    """A network ACL of the first subnet that denies everything."""
    subnet = lab.facts.subnets[0]
    [before] = lab.ec2.describe_network_acls(
        Filters=[{"Name": "association.subnet-id", "Values": [subnet]}]
    )["NetworkAcls"]
    [now] = [each for each in before["Associations"] if each["SubnetId"] == subnet]
    made = lab.ec2.create_network_acl(VpcId=before["VpcId"])["NetworkAcl"]["NetworkAclId"]
    changed = lab.ec2.replace_network_acl_association(
        AssociationId=now["NetworkAclAssociationId"], NetworkAclId=made
    )
    yield made
    lab.ec2.replace_network_acl_association(
        AssociationId=changed["NewAssociationId"], NetworkAclId=before["NetworkAclId"]
    )


def test_a_network_acl_needs_rules_for_calls_and_for_answers(lab: Laboratory, acl: str) -> None:
    def allow(number: int, low: int, high: int, *, egress: bool) -> None:
        lab.ec2.create_network_acl_entry(
            NetworkAclId=acl,
            RuleNumber=number,
            Protocol="6",
            RuleAction="allow",
            Egress=egress,
            CidrBlock="0.0.0.0/0",
            PortRange={"From": low, "To": high},
        )

    group_id = lab.facts.hub_security_group
    allow(100, PORT, PORT, egress=False)
    assert not connects(serving(lab, group_id)), "its answers may not leave"
    allow(100, 1024, 65535, egress=True)
    assert connects(serving(lab, group_id))


def test_an_instance_in_another_vpc_has_no_way_to_the_hub(lab: Laboratory, hubs_port: int) -> None:
    vpc = lab.ec2.create_vpc(CidrBlock="127.127.0.0/16")["Vpc"]["VpcId"]
    subnet = lab.ec2.create_subnet(
        VpcId=vpc, CidrBlock="127.127.1.0/24", AvailabilityZone=f"{lab.facts.region}a"
    )["Subnet"]["SubnetId"]
    instance = lab.run(CALL.format(python=sys.executable, port=hubs_port), SubnetId=subnet)
    lab.console_says(instance, "DROPPED")


# --- between two instances, which is computed ------------------------------------------------


def ports_between(lab: Laboratory, source: str, target: str) -> tuple[Any, Any]:
    found = lab.control(f"reachable/{source}/{target}")
    return found["ports"], found["possible_ports"]


def test_what_passes_between_two_instances_follows_their_groups_at_once(lab: Laboratory) -> None:
    everything: Any = ([[0, 65535]],) * 2
    nothing: Any = ([], [])
    one, other = lab.run(), lab.run(SubnetId=lab.facts.subnets[1])
    for each in (one, other):
        lab.wait_for(each, "running")
    assert ports_between(lab, one, other) == everything, "members of the default group"

    own = group(lab, "of-one-instance")
    lab.ec2.modify_instance_attribute(InstanceId=other, Groups=[own])
    assert ports_between(lab, one, other) == nothing
    assert ports_between(lab, other, one) == nothing
    rule = tcp(PORT, UserIdGroupPairs=[{"GroupId": lab.facts.hub_security_group}])
    lab.ec2.authorize_security_group_ingress(GroupId=own, IpPermissions=[rule])
    assert ports_between(lab, one, other) == ([[PORT, PORT]],) * 2
    assert ports_between(lab, other, one) == nothing

    lab.ec2.terminate_instances(InstanceIds=[one])
    assert ports_between(lab, one, other) == nothing
    assert lab.ask("reachable/i-0123456789abcdef0/" + other)[0] == 404

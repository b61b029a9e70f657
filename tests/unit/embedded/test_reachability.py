"""Which ports of one instance another one reaches, by the rules of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.embedded.instances.firewall.reachability import Place, Rules
from ec2spawner.embedded.instances.firewall.security_groups import Peer
from ec2spawner.embedded.runtime.packet_filter import ALL, Ports

VPC = "vpc-1"
SUBNET, OTHER_SUBNET = "subnet-a", "subnet-b"
EVERYTHING = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def place(address: str, *groups: str, subnet: str = OTHER_SUBNET, vpc: str = VPC) -> Place:
    return Place(vpc, subnet, Peer(address, frozenset(groups)))


ANN = place("10.0.1.1", "sg-ann", subnet=SUBNET)
BOB = place("10.0.2.2", "sg-bob")
"""Who wants to connect to Ann's instance."""


def tcp(low: int, high: int, **sources: Any) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": low, "ToPort": high, **sources}


def from_group(group: str) -> dict[str, Any]:
    return {"UserIdGroupPairs": [{"GroupId": group}]}


def cidr(block: str) -> dict[str, Any]:
    return {"IpRanges": [{"CidrIp": block}]}


def group(name: str, *ingress: Any, egress: Any = (EVERYTHING,)) -> dict[str, Any]:
    return {"GroupId": name, "IpPermissions": ingress, "IpPermissionsEgress": egress}


def entry(egress: bool, low: int, high: int, block: str = "0.0.0.0/0") -> dict[str, Any]:
    return {
        "RuleNumber": 100,
        "RuleAction": "allow",
        "Protocol": "6",
        "Egress": egress,
        "CidrBlock": block,
        "PortRange": {"From": low, "To": high},
    }


OPEN = (entry(egress=True, low=0, high=65535), entry(egress=False, low=0, high=65535))


def acls(of_subnet: Any = OPEN, of_other: Any = OPEN) -> list[dict[str, Any]]:
    return [
        {"Associations": [{"SubnetId": subnet}], "Entries": entries}
        for subnet, entries in ((SUBNET, of_subnet), (OTHER_SUBNET, of_other))
    ]


def reached(
    *groups: Any, acls_: Any = None, source: Place = BOB, in_doubt_open: bool = False
) -> Ports:
    rules = Rules(groups, acls() if acls_ is None else acls_, in_doubt_open)
    return rules.reached(source, ANN)


BOBS = group("sg-bob")
ADMITS_BOB = group("sg-ann", tcp(0, 65535, **from_group("sg-bob")))


@pytest.mark.parametrize(
    ("rule", "ports"),
    [
        (tcp(6379, 6379, **from_group("sg-bob")), ((6379, 6379),)),
        (tcp(6379, 6379, **cidr("10.0.2.0/24")), ((6379, 6379),)),
        (tcp(6379, 6379, **cidr("10.0.1.0/24")), ()),
        (tcp(0, 65535, **from_group("sg-ann")), ()),
        ({"IpProtocol": "-1", **from_group("sg-bob")}, ALL),
        ({"IpProtocol": "udp", "FromPort": 1, "ToPort": 9, **from_group("sg-bob")}, ()),
    ],
)
def test_the_targets_groups_admit_members_and_addresses(rule: Any, ports: Ports) -> None:
    assert reached(group("sg-ann", rule), BOBS) == ports


def test_the_sources_groups_let_out() -> None:
    only = tcp(443, 8000, **from_group("sg-ann"))
    assert reached(ADMITS_BOB, group("sg-bob", egress=[only])) == ((443, 8000),)
    assert reached(ADMITS_BOB, group("sg-bob", egress=[])) == ()


def test_groups_of_others_open_nothing() -> None:
    anybody = group("sg-eve", {"IpProtocol": "-1", **cidr("0.0.0.0/0")})
    assert reached(group("sg-ann"), BOBS, anybody) == ()


def test_nothing_passes_between_vpcs() -> None:
    assert reached(ADMITS_BOB, BOBS, source=replace(BOB, vpc_id="vpc-2")) == ()


OUT, IN = entry(egress=True, low=0, high=65535), entry(egress=False, low=0, high=65535)


@pytest.mark.parametrize(
    ("of_subnet", "of_other", "ports"),
    [
        ([OUT, entry(egress=False, low=80, high=90)], OPEN, ((80, 90),)),
        (OPEN, [IN, entry(egress=True, low=85, high=99)], ((85, 99),)),
        ([OUT], OPEN, ()),
        ([IN], OPEN, ()),  # answers may not leave
        (OPEN, [OUT], ()),  # answers may not enter
        ([IN, entry(egress=True, low=0, high=65535, block="10.0.1.0/24")], OPEN, ()),
    ],
)
def test_acls_of_both_subnets_count_in_both_directions(
    of_subnet: Any, of_other: Any, ports: Ports
) -> None:
    assert reached(ADMITS_BOB, BOBS, acls_=acls(of_subnet, of_other)) == ports


def test_an_acl_is_not_asked_within_its_subnet() -> None:
    neighbour = replace(BOB, subnet_id=SUBNET)
    assert reached(ADMITS_BOB, BOBS, acls_=acls([], []), source=neighbour) == ALL


def test_root_may_reach_what_is_in_doubt() -> None:
    """By a port that it calls from and no other program does, or by a prefix list."""
    few = [IN, entry(egress=True, low=1024, high=2000)]
    assert reached(ADMITS_BOB, BOBS, acls_=acls(few)) == ()
    assert reached(ADMITS_BOB, BOBS, acls_=acls(few), in_doubt_open=True) == ALL
    others = [OUT, entry(egress=False, low=3000, high=4000)]
    assert reached(ADMITS_BOB, BOBS, acls_=acls(few, others), in_doubt_open=True) == ()

    by_list = group("sg-ann", tcp(22, 22, PrefixListIds=[{"PrefixListId": "pl-1"}]))
    assert reached(by_list, BOBS) == ()
    assert reached(by_list, BOBS, in_doubt_open=True) == ((22, 22),)

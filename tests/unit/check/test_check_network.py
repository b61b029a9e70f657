"""Ports, routes and public addresses."""

from __future__ import annotations

import pytest

from ec2spawner.check.facts.network import HubPlace, RouteTable, Rule, SecurityGroup, Subnet
from ec2spawner.check.finding import State
from ec2spawner.check.verdicts.network import judge_public_addresses, judge_way_out
from ec2spawner.check.verdicts.ports import judge_hub_port, judge_notebook_port

HUB = HubPlace("10.0.0.5", True, frozenset({"sg-hub"}))
ELSEWHERE = HubPlace("192.168.1.5")
SUBNETS = [
    Subnet("subnet-a", "us-east-1a", "vpc-1", 250, "10.0.1.0/24"),
    Subnet("subnet-b", "us-east-1b", "vpc-1", 250, "10.0.2.0/24"),
]
OUT = (Rule("-1", 0, 65535, ("0.0.0.0/0",)),)


def group(*ingress: Rule, name: str = "sg-1", egress: tuple[Rule, ...] = OUT) -> SecurityGroup:
    return SecurityGroup(name, "", "vpc-1", ingress, egress)


@pytest.mark.parametrize(
    ("rule", "hub", "state"),
    [
        (Rule("tcp", 8888, 8888, groups=("sg-hub",)), HUB, State.OK),
        (Rule("tcp", 8000, 9000, ("10.0.0.0/16",)), HUB, State.OK),
        (Rule("-1", 0, 65535, ("10.0.0.5/32",)), HUB, State.OK),
        (Rule("tcp", 8888, 8888, ("192.168.0.0/16",)), ELSEWHERE, State.OK),
        (Rule("udp", 8888, 8888, ("0.0.0.0/0",)), HUB, State.FAILED),
        (Rule("tcp", 22, 22, ("0.0.0.0/0",)), HUB, State.FAILED),
        (Rule("tcp", 8888, 8888, ("10.0.0.6/32",)), HUB, State.FAILED),
        (Rule("-1", 0, 65535, groups=("sg-1",)), HUB, State.FAILED),
        (Rule("tcp", 8888, 8888, unread=("pl-1",)), HUB, State.UNPROVED),
        (Rule("tcp", 8888, 8888, groups=("sg-hub",)), ELSEWHERE, State.UNPROVED),
    ],
)
def test_the_hub_must_reach_the_notebooks_port(rule: Rule, hub: HubPlace, state: State) -> None:
    finding = judge_notebook_port([group(rule)], hub, (), 8888)
    assert finding.state is state
    if state is State.FAILED:
        assert "allow TCP 8888 from sg-hub in sg-1" in finding.fix


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (Rule("tcp", 8081, 8081, groups=("sg-1",)), State.OK),
        (Rule("tcp", 8081, 8081, ("10.0.0.0/16",)), State.OK),
        (Rule("tcp", 8081, 8081, ("10.0.1.0/24",)), State.FAILED),
        (Rule("tcp", 8000, 8000, ("0.0.0.0/0",)), State.FAILED),
        (Rule("tcp", 8081, 8081, unread=("pl-1",)), State.UNPROVED),
    ],
)
def test_instances_of_each_subnet_must_reach_the_hub(rule: Rule, state: State) -> None:
    finding = judge_hub_port([group(rule, name="sg-hub")], [group()], SUBNETS, HUB, 8081)
    assert finding.state is state
    if state is State.FAILED:
        assert "10.0.2.0/24" in finding.said
        assert "allow TCP 8081 from sg-1 in sg-hub" in finding.fix


def test_rules_for_what_leaves_an_instance_count_too() -> None:
    entering = group(Rule("-1", 0, 65535, ("0.0.0.0/0",)), name="sg-hub")
    web = group(egress=(Rule("tcp", 443, 443, ("0.0.0.0/0",)),))
    finding = judge_hub_port([entering], [web], SUBNETS, HUB, 8081)
    assert finding.state is State.FAILED
    assert "outbound" in finding.fix


def test_the_groups_of_a_hub_elsewhere_are_not_known() -> None:
    assert judge_hub_port([], [group()], SUBNETS, ELSEWHERE, 8081).state is State.UNPROVED


def table(
    way_out: str, *subnets: str, gone: bool = False, main: bool = False, unread: str = ""
) -> RouteTable:
    others = (unread,) if unread else ()
    return RouteTable("vpc-1", main, frozenset(subnets), way_out, gone, unread=others)


@pytest.mark.parametrize(
    ("tables", "public", "installs", "state"),
    [
        ([table("nat-1", main=True)], False, True, State.OK),
        ([table("tgw-1", main=True)], False, True, State.UNPROVED),
        ([table("nat-1", main=True), table("tgw-1", "subnet-b")], False, True, State.UNPROVED),
        ([table("tgw-1", gone=True, main=True)], False, True, State.FAILED),
        ([table("", main=True, unread="::/0")], False, True, State.UNPROVED),
        ([table("nat-1", main=True, unread="::/0")], False, True, State.OK),
        ([table("", main=True), table("tgw-1", "subnet-b")], False, True, State.FAILED),
        ([table("igw-1", main=True)], True, True, State.OK),
        ([table("igw-1", main=True)], False, True, State.FAILED),
        ([table("", main=True)], True, True, State.FAILED),
        ([table("", main=True)], False, False, State.WARNING),
        ([table("nat-1", gone=True, main=True)], False, True, State.FAILED),
        ([table("nat-1", main=True), table("", "subnet-b")], False, True, State.FAILED),
        ([table("", main=True), table("nat-1", "subnet-a", "subnet-b")], False, True, State.OK),
    ],
)
def test_packets_of_each_subnet_need_a_way_out_and_back(
    tables: list[RouteTable], public: bool, installs: bool, state: State
) -> None:
    subnets = [
        Subnet(s.subnet_id, s.zone, s.vpc_id, s.free_addresses, s.cidr, public) for s in SUBNETS
    ]
    finding = judge_way_out(subnets, tables, installs_at_boot=installs)
    assert finding.state is state


def test_the_price_of_public_addresses_is_shown() -> None:
    assert judge_public_addresses(SUBNETS).state is State.OK
    public = Subnet("subnet-c", "us-east-1c", "vpc-1", 9, public_addresses=True)
    finding = judge_public_addresses([*SUBNETS, public])
    assert finding.state is State.WARNING
    assert "subnet-c" in finding.said
    assert "USD 0.005 an hour (USD 3.65 a month)" in finding.said

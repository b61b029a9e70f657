"""Which ports the rules of a security group open, and for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.embedded.instances.firewall.security_groups import Peer, open_ports
from ec2spawner.embedded.runtime.packet_filter import ALL, OPEN, Passage, environment
from ec2spawner.embedded.runtime.packet_filter_on_instance import VARIABLE, Filter

HUB = Peer("10.0.0.5", frozenset({"sg-hub"}))
OWN, HIDDEN = "127.64.1.2", "127.128.1.2"


def rule(protocol: str = "tcp", low: int = 8888, high: int = 8888, **source: Any) -> dict[str, Any]:
    ports = {} if protocol == "-1" else {"FromPort": low, "ToPort": high}
    return {"IpProtocol": protocol, **ports, **source}


def cidr(block: str) -> dict[str, Any]:
    return {"IpRanges": [{"CidrIp": block}]}


def members(group: str) -> dict[str, Any]:
    return {"UserIdGroupPairs": [{"GroupId": group}]}


@pytest.mark.parametrize(
    ("rules", "ports"),
    [
        ([], ()),
        ([rule(**cidr("10.0.0.0/8"))], ((8888, 8888),)),
        ([rule(**cidr("10.0.0.5/32"))], ((8888, 8888),)),
        ([rule(**cidr("10.0.0.6/32"))], ()),
        ([rule(**members("sg-hub"))], ((8888, 8888),)),
        ([rule(**members("sg-other"))], ()),
        ([rule("6", 0, 100, **members("sg-hub"))], ((0, 100),)),
        ([rule("udp", **members("sg-hub"))], ()),
        ([rule("-1", **members("sg-hub"))], ALL),
        ([rule("-1", **members("sg-other"))], ()),
        ([rule(PrefixListIds=[{"PrefixListId": "pl-1"}])], ()),
        (
            [rule(**cidr("0.0.0.0/0")), rule(low=22, high=22, **members("sg-hub"))],
            ((22, 22), (8888, 8888)),
        ),
    ],
)
def test_a_rule_opens_its_ports_for_whom_it_names(rules: list[Any], ports: Any) -> None:
    assert open_ports(rules, HUB, lists_admit=False) == ports


def test_a_prefix_list_may_name_anybody() -> None:
    rules = [rule(PrefixListIds=[{"PrefixListId": "pl-1"}]), rule(low=22, high=22)]
    assert open_ports(rules, HUB, lists_admit=True) == ((8888, 8888),)


def test_an_instance_that_everything_reaches_is_not_filtered(tmp_path: Path) -> None:
    assert environment(OPEN, OWN, {1338}, tmp_path) == {}
    shut = environment(Passage((), (ALL, ALL)), OWN, {1338}, tmp_path)
    assert json.loads(shut[VARIABLE])["unfiltered"] == [1338]


def filtered(inbound: Any = ALL, outbound: Any = (ALL, ALL)) -> Filter:
    rules = {"address": OWN, "hub": "127.0.0.1", "inbound": inbound, "outbound": outbound}
    return Filter({**rules, "unfiltered": [1338]})


def test_a_process_still_reaches_its_own_closed_ports() -> None:
    shut = filtered(inbound=[[22, 22]])
    assert shut.connect_to((OWN, 8888)) == (HIDDEN, 8888)
    for open_address in (
        (OWN, 22),
        (OWN, 1338),
        ("127.0.0.1", 8081),
        ("::1", 8888, 0, 0),
        "/socket",
    ):
        assert shut.connect_to(open_address) == open_address
    assert shut.listen_at((OWN, 0)) == (OWN, 0)
    assert shut.listen_at(("127.0.0.1", 8888)) == ("127.0.0.1", 8888)


def test_a_call_needs_both_sides_rules() -> None:
    assert filtered(outbound=[[[8081, 8081]], ALL]).connect_to(("127.0.0.1", 8081))[1] == 8081
    for outbound in ([[], ALL], [ALL, []], [[[8081, 8081]], [[443, 443]]]):
        host, _ = filtered(outbound=outbound).connect_to(("127.0.0.1", 8081))
        assert host == HIDDEN

"""Which ports the rules of network ACLs let pass."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.embedded.instances.firewall.network_acls import answers_pass, common, passing_ports
from ec2spawner.embedded.runtime.packet_filter import ALL, Ports

HUB = "127.0.0.1"


def rule(number: int, action: str, *ports: int, **changes: Any) -> dict[str, Any]:
    found = {"RuleNumber": number, "RuleAction": action, "Protocol": "-1", "Egress": False}
    ranges = {"PortRange": {"From": ports[0], "To": ports[1]}, "Protocol": "6"} if ports else {}
    return {**found, "CidrBlock": "0.0.0.0/0", **ranges, **changes}


DENY = rule(32767, "deny")


@pytest.mark.parametrize(
    ("rules", "ports"),
    [
        ([DENY], ()),
        ([rule(100, "allow"), DENY], ALL),
        ([rule(100, "allow", 8888, 8888), DENY], ((8888, 8888),)),
        ([rule(200, "allow"), rule(100, "deny", 8888, 8888)], ((0, 8887), (8889, 65535))),
        ([rule(100, "allow"), rule(200, "deny", 8888, 8888)], ALL),
        (
            [rule(1, "allow", 1, 5), rule(2, "deny", 4, 9), rule(3, "allow", 6, 20)],
            ((1, 5), (10, 20)),
        ),
        ([rule(100, "allow", Egress=True), DENY], ()),
        ([rule(100, "allow", Protocol="17"), DENY], ()),
        ([rule(100, "allow", CidrBlock="10.0.0.0/8"), DENY], ()),
        ([rule(100, "allow", CidrBlock="127.0.0.0/24"), DENY], ALL),
        ([rule(100, "allow", CidrBlock=None, Ipv6CidrBlock="::/0"), DENY], ()),
        ([], ()),
    ],
)
def test_the_first_rule_for_a_port_decides(rules: list[Any], ports: Ports) -> None:
    assert passing_ports(rules, HUB, egress=False) == ports


def test_answers_need_every_port_that_a_client_calls_from() -> None:
    assert answers_pass(ALL)
    assert answers_pass(((1024, 65535),))
    assert not answers_pass(((1024, 50000),))
    assert not answers_pass(())


def test_ports_in_both() -> None:
    assert common(((1, 10), (20, 30)), ((5, 25),)) == ((5, 10), (20, 25))
    assert common(ALL, ()) == ()

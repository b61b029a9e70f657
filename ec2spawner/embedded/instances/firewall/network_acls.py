"""Network ACLs: which TCP ports their rules let into a subnet, or out of it. Pure.

They are stateless: what answers a call needs a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from ...runtime.packet_filter import ALL, Ports

PROTOCOLS = ("-1", "6")
"""All, and TCP, as the rules have them."""

EPHEMERAL = (32768, 60999)
"""Ports that a Linux client calls from, and is answered at: net.ipv4.ip_local_port_range."""

Entry = Mapping[str, Any]
"""A rule as DescribeNetworkAcls shows it."""


def passing_ports(entries: Iterable[Entry], address: str, *, egress: bool) -> Ports:
    """The ports of TCP packets from an address that enter, or with `egress` to it that leave.

    The first rule for a port, in the order of the rules' numbers, decides.
    """
    open_: list[tuple[int, int]] = []
    undecided = ALL
    for entry in sorted(entries, key=lambda each: int(each["RuleNumber"])):
        if bool(entry["Egress"]) is not egress or not _names(entry, address):
            continue
        ports = entry.get("PortRange") or {}
        rule = ((ports.get("From", 0), ports.get("To", 65535)),)
        if entry["RuleAction"] == "allow":
            open_ += common(undecided, rule)
        undecided = _without(undecided, rule[0])
    return _merged(open_)


def common(one: Ports, other: Ports) -> Ports:
    """The ports that are in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return _merged((low, high) for low, high in pairs if low <= high)


def answers_pass(ports: Ports) -> bool:
    """Whether packets to every port that a client may have called from are among these."""
    return common(ports, (EPHEMERAL,)) == (EPHEMERAL,)


def some_answers_pass(ports: Ports) -> bool:
    """Whether a client that chooses the port that it calls from, which root can, is answered."""
    return bool(ports)


def _names(entry: Entry, address: str) -> bool:
    if entry["Protocol"] not in PROTOCOLS or not entry.get("CidrBlock"):
        return False
    return ip_address(address) in ip_network(entry["CidrBlock"])


def _without(ports: Ports, taken: tuple[int, int]) -> Ports:
    low, high = taken
    rest = [(a, min(b, low - 1)) for a, b in ports] + [(max(a, high + 1), b) for a, b in ports]
    return _merged((a, b) for a, b in rest if a <= b)


def _merged(ports: Iterable[tuple[int, int]]) -> Ports:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ports):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)

"""Security groups: which ports their rules open. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from ...runtime.packet_filter import ALL, Ports

TCP = ("tcp", "6")
ANY_PROTOCOL = "-1"

Permission = Mapping[str, Any]
"""A rule as DescribeSecurityGroups shows it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a connection."""

    address: str
    groups: frozenset[str]


def open_ports(permissions: Iterable[Permission], peer: Peer, *, lists_admit: bool) -> Ports:
    """The TCP ports that the rules open for the peer, in whichever direction they are for.

    Prefix lists are not read: they admit nobody, or with `lists_admit` everybody.
    """
    found = set()
    for each in permissions:
        if _names(each, peer) or (lists_admit and each.get("PrefixListIds")):
            if each["IpProtocol"] == ANY_PROTOCOL:
                return ALL
            if each["IpProtocol"] in TCP:
                found.add((each["FromPort"], each["ToPort"]))
    return tuple(sorted(found))


def _names(permission: Permission, peer: Peer) -> bool:
    address = ip_address(peer.address)
    return any(
        address in ip_network(each["CidrIp"]) for each in permission.get("IpRanges") or ()
    ) or any(
        each.get("GroupId") in peer.groups for each in permission.get("UserIdGroupPairs") or ()
    )

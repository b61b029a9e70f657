"""Security groups: which ports their rules open between an instance and the hub.

The hub's machine counts as a member of the default group of the instances' VPC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from ..api.moto_backend import Moto
from ..runtime.packet_filter import ALL, HUB_ADDRESS, Passage, Ports

TCP = ("tcp", "6")
ANY_PROTOCOL = "-1"

Permission = Mapping[str, Any]
"""A rule as DescribeSecurityGroups shows it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a connection."""

    address: str
    groups: frozenset[str]


def open_ports(permissions: Iterable[Permission], peer: Peer) -> Ports:
    """The TCP ports that the rules open for the peer, in whichever direction they are for."""
    found = set()
    for each in permissions:
        if _names(each, peer):
            if each["IpProtocol"] == ANY_PROTOCOL:
                return ALL
            if each["IpProtocol"] in TCP:
                found.add((each["FromPort"], each["ToPort"]))
    return tuple(sorted(found))


def _names(permission: Permission, peer: Peer) -> bool:
    """Prefix lists are not read: they admit nobody."""
    address = ip_address(peer.address)
    return any(
        address in ip_network(each["CidrIp"]) for each in permission.get("IpRanges") or ()
    ) or any(
        each.get("GroupId") in peer.groups for each in permission.get("UserIdGroupPairs") or ()
    )


def passage(moto: Moto, shown: Any) -> Passage:
    """What passes between moto's instance and the hub now. Only inside `Moto.run`."""
    (interface,) = shown.nics.values()
    ids = frozenset(group.id for group in interface.group_set)
    in_vpc = {"Name": "vpc-id", "Values": [interface.subnet.vpc_id]}
    listed = moto.call_here("DescribeSecurityGroups", Filters=[in_vpc])["SecurityGroups"]
    groups = {each["GroupId"]: each for each in listed}
    hub_groups = frozenset(g for g, each in groups.items() if each["GroupName"] == "default")
    hub, instance = Peer(HUB_ADDRESS, hub_groups), Peer(shown.private_ip, ids)

    def rules(of: frozenset[str], direction: str) -> list[Permission]:
        return [rule for each in of & groups.keys() for rule in groups[each][direction]]

    return Passage(
        open_ports(rules(ids, "IpPermissions"), hub),
        (
            open_ports(rules(ids, "IpPermissionsEgress"), hub),
            open_ports(rules(hub_groups, "IpPermissions"), instance),
        ),
    )

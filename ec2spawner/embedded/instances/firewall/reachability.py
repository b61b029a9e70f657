"""Which TCP connections pass within a VPC, by its network ACLs and security groups.

What passes between an instance and the hub is enforced: packets are dropped. What passes between
two instances is only computed, as AWS's Reachability Analyzer does.

The hub's machine is in the public subnet of the VPC that is there from the start, and a member of
its default group. Within a VPC the local route always leads there, and cannot be removed; from
another VPC no route does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...api.moto_backend import Moto
from ...runtime.packet_filter import ALL, HUB_ADDRESS, SHUT, Passage, Ports
from .network_acls import Entry, answers_pass, common, passing_ports, some_answers_pass
from .security_groups import Peer, Permission, open_ports


@dataclass(frozen=True, slots=True)
class Place:
    """Where one side of a connection is: its interface."""

    vpc_id: str
    subnet_id: str
    peer: Peer


@dataclass(frozen=True, slots=True)
class Rules:
    """The security groups and network ACLs of a VPC, as EC2 lists them.

    What an embedded EC2 does not know (what a prefix list names, which port a client calls from)
    closes ports here, or with `in_doubt_open` opens them: a test that something is reached wants
    the former, one that nothing is wants the latter.
    """

    groups: Sequence[Mapping[str, Any]]
    acls: Sequence[Mapping[str, Any]]
    in_doubt_open: bool = False

    def leaving(self, source: Place, target: Place) -> Ports:
        """The target's ports to which the source's side lets packets go."""
        by_groups = self._by_groups(source, target, "IpPermissionsEgress")
        return common(by_groups, self._by_acl(source, target, egress=True))

    def entering(self, source: Place, target: Place) -> Ports:
        """The target's ports that its own side opens for the source."""
        by_groups = self._by_groups(target, source, "IpPermissions")
        return common(by_groups, self._by_acl(target, source, egress=False))

    def answers_pass(self, source: Place, target: Place) -> bool:
        """Whether the target's answers get back. Security groups let all answers pass."""
        both = common(
            self._by_acl(target, source, egress=True), self._by_acl(source, target, egress=False)
        )
        return some_answers_pass(both) if self.in_doubt_open else answers_pass(both)

    def reached(self, source: Place, target: Place) -> Ports:
        """The target's ports to which the source can open a connection."""
        if source.vpc_id != target.vpc_id or not self.answers_pass(source, target):
            return ()
        return common(self.leaving(source, target), self.entering(source, target))

    def _by_groups(self, place: Place, other: Place, direction: str) -> Ports:
        rules: list[Permission] = [
            rule
            for group in self.groups
            if group["GroupId"] in place.peer.groups
            for rule in group[direction]
        ]
        return open_ports(rules, other.peer, lists_admit=self.in_doubt_open)

    def _by_acl(self, place: Place, other: Place, *, egress: bool) -> Ports:
        """By the ACL of the place's subnet, which is asked about what crosses its border only."""
        if place.subnet_id == other.subnet_id:
            return ALL
        return passing_ports(self._entries(place.subnet_id), other.peer.address, egress=egress)

    def _entries(self, subnet_id: str) -> Sequence[Entry]:
        for acl in self.acls:
            if any(each["SubnetId"] == subnet_id for each in acl["Associations"]):
                entries: Sequence[Entry] = acl["Entries"]
                return entries
        return ()


def passage(moto: Moto, shown: Any, hub_subnet: str) -> Passage:
    """What passes between moto's instance and the hub now. Only inside `Moto.run`."""
    instance = _place_of(shown)
    vpc_id = moto.backend.get_subnet(hub_subnet).vpc_id
    if instance.vpc_id != vpc_id:
        return SHUT
    rules = _rules(moto, vpc_id)
    of_hub = frozenset(x["GroupId"] for x in rules.groups if x["GroupName"] == "default")
    hub = Place(vpc_id, hub_subnet, Peer(HUB_ADDRESS, of_hub))
    answered = rules.answers_pass(instance, hub)
    return Passage(
        rules.reached(hub, instance),
        (
            rules.leaving(instance, hub) if answered else (),
            rules.entering(instance, hub) if answered else (),
        ),
    )


def between(moto: Moto, source: Any, target: Any) -> tuple[Ports, Ports]:
    """The TCP ports of one of moto's instances to which every program of another one can connect
    now, and those to which one of root's might. Nothing else is reached.

    Only inside `Moto.run`, and for instances that have not been terminated.
    """
    start, end = _place_of(source), _place_of(target)
    rules = _rules(moto, end.vpc_id)
    return rules.reached(start, end), replace(rules, in_doubt_open=True).reached(start, end)


def _rules(moto: Moto, vpc_id: str) -> Rules:
    return Rules(
        moto.list_in_vpc("SecurityGroups", vpc_id), moto.list_in_vpc("NetworkAcls", vpc_id)
    )


def _place_of(shown: Any) -> Place:
    (interface,) = shown.nics.values()
    groups = frozenset(group.id for group in interface.group_set)
    subnet = interface.subnet
    return Place(subnet.vpc_id, subnet.id, Peer(shown.private_ip, groups))

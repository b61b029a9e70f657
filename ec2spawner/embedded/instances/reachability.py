"""What passes between an instance and the hub: by the VPC, network ACLs and security groups.

The hub's machine is in the public subnet of the VPC that is there from the start, and a member of
its default group. Within a VPC the local route always leads there, and cannot be removed; from
another VPC no route does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..api.moto_backend import Moto
from ..runtime.packet_filter import HUB_ADDRESS, SHUT, Passage, Ports
from .network_acls import Entry, answers_pass, common, passing_ports
from .security_groups import Peer, Permission, open_ports


def passage(moto: Moto, shown: Any, hub_subnet: str) -> Passage:
    """What passes between moto's instance and the hub now. Only inside `Moto.run`."""
    (interface,) = shown.nics.values()
    vpc_id = moto.backend.get_subnet(hub_subnet).vpc_id
    if interface.subnet.vpc_id != vpc_id:
        return SHUT
    listed = moto.list_in_vpc("SecurityGroups", vpc_id)
    by_groups = _by_groups(listed, frozenset(group.id for group in interface.group_set), shown)
    acls = moto.list_in_vpc("NetworkAcls", vpc_id)
    return _within(
        by_groups,
        of_instance=_entries(acls, interface.subnet.id),
        of_hub=_entries(acls, hub_subnet),
        address=shown.private_ip,
    )


def _by_groups(
    listed: Sequence[Mapping[str, Any]], of_instance: frozenset[str], shown: Any
) -> Passage:
    groups = {each["GroupId"]: each for each in listed}
    of_hub = frozenset(g for g, each in groups.items() if each["GroupName"] == "default")
    hub, instance = Peer(HUB_ADDRESS, of_hub), Peer(shown.private_ip, of_instance)

    def rules(of: frozenset[str], direction: str) -> list[Permission]:
        return [rule for each in of & groups.keys() for rule in groups[each][direction]]

    return Passage(
        open_ports(rules(of_instance, "IpPermissions"), hub),
        (
            open_ports(rules(of_instance, "IpPermissionsEgress"), hub),
            open_ports(rules(of_hub, "IpPermissions"), instance),
        ),
    )


def _within(
    by_groups: Passage, of_instance: Sequence[Entry], of_hub: Sequence[Entry], address: str
) -> Passage:
    """What network ACLs leave of that: those of the instance's subnet, and of the hub's."""
    into_instance = passing_ports(of_instance, HUB_ADDRESS, egress=False)
    out_of_instance = passing_ports(of_instance, HUB_ADDRESS, egress=True)
    into_hub = passing_ports(of_hub, address, egress=False)
    out_of_hub = passing_ports(of_hub, address, egress=True)
    instance_answers = answers_pass(out_of_instance) and answers_pass(into_hub)
    hub_answers = answers_pass(out_of_hub) and answers_pass(into_instance)
    inbound: Ports = common(by_groups.inbound, common(into_instance, out_of_hub))
    leaving, admitted = by_groups.outbound
    return Passage(
        inbound if instance_answers else (),
        (
            common(leaving, out_of_instance) if hub_answers else (),
            common(admitted, into_hub) if hub_answers else (),
        ),
    )


def _entries(acls: Sequence[Mapping[str, Any]], subnet_id: str) -> Sequence[Entry]:
    for acl in acls:
        if any(each["SubnetId"] == subnet_id for each in acl["Associations"]):
            entries: Sequence[Entry] = acl["Entries"]
            return entries
    return ()

"""Whether security groups let hub and instances reach each other. Pure.

Network ACLs, firewalls and routes between VPCs are not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ..facts.network import HubPlace, Peer, Rule, SecurityGroup, Subnet
from ..finding import Finding, failed, ok, unproved
from ..repairs.plan import Repair, open_port
from ..topics import Topic

NOT_HERE: Final = (
    "no network interface of the subnets' VPC has the hub's address {address}, so its security "
    "groups are unknown"
)


def judge_notebook_port(
    groups: Sequence[SecurityGroup],
    hub: HubPlace,
    hub_groups: Sequence[SecurityGroup],
    port: int,
) -> Finding:
    """Whether one of the instances' `groups` lets the hub reach notebooks at `port`."""
    ids = ", ".join(group.group_id for group in groups)
    rules = [rule for group in groups for rule in group.ingress]
    if any(rule.admits(port, hub.peer) for rule in rules):
        return ok(Topic.NOTEBOOK_PORT, f"{ids} lets the hub ({hub.address}) reach port {port}")
    target = groups[0].group_id
    sources = _own(hub_groups) or sorted(hub.groups) or [f"{hub.address}/32"]
    fix = f"allow TCP {port} from {' or '.join(sources)} in {target}"
    doubt = _doubt(rules, port) or ("" if hub.subnets_vpc else NOT_HERE.format(address=hub.address))
    if doubt:
        said = f"no rule of {ids} names the hub ({hub.address}) for port {port}; {doubt}"
        return unproved(Topic.NOTEBOOK_PORT, said, fix)
    return failed(
        Topic.NOTEBOOK_PORT,
        f"{ids} does not let the hub ({hub.address}) reach port {port}: each start would fail",
        fix,
        repairs=_one_of(open_port(target, port, source) for source in sources),
    )


def judge_hub_port(
    hub_groups: Sequence[SecurityGroup],
    groups: Sequence[SecurityGroup],
    subnets: Sequence[Subnet],
    hub: HubPlace,
    port: int,
) -> Finding:
    """Whether instances may call the hub's API: out of their `groups`, and into the hub's."""
    ids = ", ".join(group.group_id for group in groups)
    leaving = [rule for group in groups for rule in group.egress]
    if not any(rule.admits(port, hub.peer) for rule in leaving) and not _doubt(leaving, port):
        return failed(
            Topic.HUB_PORT,
            f"no outbound rule of {ids} leads to the hub ({hub.address}) at port {port}",
            f"allow outbound TCP {port} to {hub.address}/32 in {groups[0].group_id}",
        )
    if not hub_groups:
        said = NOT_HERE.format(address=hub.address)
        fix = f"let the subnets' addresses reach TCP {port} of the hub"
        return unproved(Topic.HUB_PORT, said, fix)
    hub_ids = ", ".join(group.group_id for group in hub_groups)
    entering = [rule for group in hub_groups for rule in group.ingress]
    members = frozenset(group.group_id for group in groups)
    shut = [s.cidr for s in subnets if not _any_admits(entering, port, Peer(s.cidr, members))]
    if not shut:
        return ok(Topic.HUB_PORT, f"{hub_ids} lets instances reach port {port} of the hub")
    source, targets = groups[0].group_id, _own(hub_groups)
    fix = f"allow TCP {port} from {source} in {' or '.join(targets)}"
    if doubt := _doubt(entering, port):
        return unproved(Topic.HUB_PORT, f"no rule of {hub_ids} names instances; {doubt}", fix)
    return failed(
        Topic.HUB_PORT,
        f"{hub_ids} of the hub does not let instances in {', '.join(shut)} reach port {port}: "
        "no instance could report to the hub",
        fix,
        repairs=_one_of(open_port(target, port, source) for target in targets),
    )


def _own(groups: Sequence[SecurityGroup]) -> list[str]:
    """Ids of those that somebody made for the hub: in a VPC's default group is everything that
    was launched without one. That one only where there is no other."""
    made = [group.group_id for group in groups if group.name != "default"]
    return sorted(made or (group.group_id for group in groups))


def _one_of(repairs: Iterable[Repair]) -> list[Repair]:
    """Several are alternatives: which of the hub's groups is its own is not known."""
    found = list(repairs)
    choice = " or ".join(repair.command for repair in found) if len(found) > 1 else ""
    return [replace(repair, one_of=choice) for repair in found]


def _any_admits(rules: Sequence[Rule], port: int, peer: Peer) -> bool:
    return any(rule.admits(port, peer) for rule in rules)


def _doubt(rules: Sequence[Rule], port: int) -> str:
    """Why a rule that is not understood here may admit the other side."""
    unread = {each for rule in rules if rule.has_port(port) for each in rule.unread}
    if not unread:
        return ""
    return f"{', '.join(sorted(unread))} may contain it, and is not read here"

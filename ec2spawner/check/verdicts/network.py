"""Whether instances can be launched in the subnets, and be reached there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..account import SecurityGroup, Subnet
from ..finding import Finding, failed, ok, warning
from ..topics import Topic

FEW_ADDRESSES = 16
"""A subnet with fewer free addresses will soon refuse somebody: each instance takes one."""


def judge_subnets(subnets: Sequence[Subnet]) -> Finding:
    """Fails for several VPCs or no free address; warns about few addresses or a single zone."""
    zones = sorted({subnet.zone for subnet in subnets})
    networks = {subnet.vpc_id for subnet in subnets}
    counted = ", ".join(f"{s.zone} {s.free_addresses} free" for s in subnets)
    if len(networks) > 1:
        return failed(
            Topic.SUBNETS,
            f"they are in {len(networks)} VPCs: {', '.join(sorted(networks))}",
            "keep those of one VPC in c.EC2Spawner.subnets: security groups are of one VPC",
        )
    if not any(subnet.free_addresses for subnet in subnets):
        return failed(
            Topic.SUBNETS,
            f"none has a free address: {counted}",
            "free addresses, or add larger subnets to c.EC2Spawner.subnets",
        )
    low = [s for s in subnets if s.free_addresses < FEW_ADDRESSES]
    if low:
        return warning(
            Topic.SUBNETS,
            f"few free addresses in {', '.join(s.subnet_id for s in low)}: {counted}",
            "add a larger subnet of the same zone to c.EC2Spawner.subnets",
        )
    if len(zones) == 1:
        return warning(
            Topic.SUBNETS,
            f"all in {zones[0]}: spot is there far less often than in any of several zones",
            "add a subnet in each zone of the region to c.EC2Spawner.subnets",
        )
    return ok(Topic.SUBNETS, f"{len(zones)} zones: {counted}")


def judge_security_groups(groups: Sequence[SecurityGroup], subnets: Sequence[Subnet]) -> Finding:
    """Fails for groups of another VPC than the subnets."""
    networks = {subnet.vpc_id for subnet in subnets}
    foreign = [group for group in groups if group.vpc_id not in networks]
    if foreign:
        return failed(
            Topic.SECURITY_GROUPS,
            f"{', '.join(g.group_id for g in foreign)} is of another VPC than the subnets",
            "use groups of the subnets' VPC in c.EC2Spawner.security_groups",
        )
    return ok(Topic.SECURITY_GROUPS, ", ".join(f"{g.group_id} ({g.name})" for g in groups))

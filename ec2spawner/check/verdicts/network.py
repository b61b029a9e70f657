"""Whether instances can be launched in the subnets, and where their packets get. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.pricing.resource_prices import ADDRESS_USD_PER_HOUR, HOURS_PER_MONTH
from ..facts.network import RouteTable, SecurityGroup, Subnet
from ..finding import Finding, failed, ok, unproved, warning
from ..topics import Topic

UNDERSTOOD: Final = ("nat-", "igw-")
"""First parts of ids of targets that lead to the internet by themselves."""

FEW_ADDRESSES: Final = 16
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


def judge_security_groups(
    groups: Sequence[SecurityGroup], subnets: Sequence[Subnet], clusters_beside: int | None = None
) -> Finding:
    """Fails for groups of another VPC than the subnets.

    Where users may have clusters, `clusters_beside` is the notebook's port, and it warns if
    instances reach each other at others: ports of engines authenticate nobody. Sources that are not
    read, such as prefix lists, leave that unproved.
    """
    networks = {subnet.vpc_id for subnet in subnets}
    foreign = [group for group in groups if group.vpc_id not in networks]
    if foreign:
        return failed(
            Topic.SECURITY_GROUPS,
            f"{', '.join(g.group_id for g in foreign)} is of another VPC than the subnets",
            "use groups of the subnets' VPC in c.EC2Spawner.security_groups",
        )
    named = ", ".join(f"{g.group_id} ({g.name})" for g in groups)
    if clusters_beside is None:
        return ok(Topic.SECURITY_GROUPS, named)
    # Outbound rules do not count: the group of a cluster lets its nodes connect to anywhere.
    at_engines = [
        rule
        for group in groups
        for rule in group.ingress
        if rule.has_unprivileged_port(besides=clusters_beside)
    ]
    members = frozenset(group.group_id for group in groups)
    if any(rule.admits_any_of(subnet, members) for rule in at_engines for subnet in subnets):
        return warning(
            Topic.SECURITY_GROUPS,
            f"{named} lets instances of all users reach each other, and so the nodes of clusters",
            "name groups in c.EC2Spawner.security_groups that admit the hub and no instances: each "
            "cluster gets a group of its own, by which its nodes reach each other",
        )
    unread = sorted({each for rule in at_engines for each in rule.unread})
    if unread:
        return unproved(
            Topic.SECURITY_GROUPS,
            f"{named} admits {', '.join(unread)}, which may contain the addresses of instances: "
            "it is not read here",
            "admit the hub's security group instead",
        )
    return ok(Topic.SECURITY_GROUPS, named)


# --- the way out -----------------------------------------------------------------------------


def judge_way_out(
    subnets: Sequence[Subnet], tables: Sequence[RouteTable], *, installs_at_boot: bool
) -> Finding:
    """Whether packets of instances get to the internet, and the answers back.

    Fails only where instances install ec2spawner at boot: an image that has it starts without. A
    way that is not a NAT or an internet gateway's may lead anywhere, and is unproved.
    """
    routed = {subnet.subnet_id: _table_of(subnet, tables) for subnet in subnets}
    stuck = {s.subnet_id: why for s in subnets if (why := _stuck(s, routed[s.subnet_id]))}
    used = [table for table in routed.values() if table]
    unread = {each for table in used for each in _unread(table)}
    if not stuck and not unread:
        ways = sorted({table.way_out for table in used})
        return ok(Topic.WAY_OUT, f"to the internet by {', '.join(ways)}{_endpoints(tables)}")
    if all(table and set(_unread(table)) for s, table in routed.items() if s in stuck):
        said = f"whether {', '.join(sorted(unread))} leads to the internet is not read here"
        fix = "look at the routes behind it, or start a server and install a package there"
        return unproved(Topic.WAY_OUT, said, fix)
    reasons = {why: [s for s, w in stuck.items() if w == why] for why in stuck.values()}
    said = "; ".join(f"{', '.join(ids)}: {why}" for why, ids in reasons.items())
    fix = (
        "add a NAT gateway and a default route to it to the subnets' route tables, or let "
        "subnets with an internet gateway assign public addresses"
    )
    if installs_at_boot:
        said = f"{said}; instances could not install ec2spawner at boot"
        return failed(Topic.WAY_OUT, said, fix)
    said = f"{said}; users could not install packages or download anything{_endpoints(tables)}"
    return warning(Topic.WAY_OUT, said, fix)


def _table_of(subnet: Subnet, tables: Sequence[RouteTable]) -> RouteTable | None:
    """Its own, else the main one of its VPC."""
    own = (table for table in tables if subnet.subnet_id in table.subnets)
    main = (table for table in tables if table.main and table.vpc_id == subnet.vpc_id)
    return next(own, None) or next(main, None)


def _unread(table: RouteTable) -> Sequence[str]:
    """What may lead to the internet in ways that are not understood here."""
    if table.way_out_is_gone or table.way_out.startswith(UNDERSTOOD):
        return ()
    return [table.way_out] if table.way_out else table.unread


def _stuck(subnet: Subnet, table: RouteTable | None) -> str:
    """Why nothing gets out of a subnet; empty where it does."""
    if table is None or not table.way_out:
        return "no route to the internet"
    if table.way_out_is_gone:
        return f"the default route leads to {table.way_out}, which is gone"
    if table.way_out.startswith("igw-") and not subnet.public_addresses:
        return (
            f"the default route leads to {table.way_out}, and an internet gateway serves only "
            "instances with a public address"
        )
    return ""


def _endpoints(tables: Sequence[RouteTable]) -> str:
    found = sorted({endpoint for table in tables for endpoint in table.endpoints})
    return f"; to S3 also by {', '.join(found)}" if found else ""


def unread_routes(code: str) -> Finding:
    """The routes may not be read, or could not be."""
    return unproved(
        Topic.WAY_OUT,
        f"the route tables cannot be read: {code}",
        "give the hub's role ec2:DescribeRouteTables, or look in the console",
    )


def judge_public_addresses(subnets: Sequence[Subnet]) -> Finding:
    """Warns where each instance gets a public address: it costs money and is an open door."""
    public = [subnet.subnet_id for subnet in subnets if subnet.public_addresses]
    if not public:
        return ok(Topic.PUBLIC_ADDRESS, "instances get none")
    month = ADDRESS_USD_PER_HOUR * HOURS_PER_MONTH
    return warning(
        Topic.PUBLIC_ADDRESS,
        f"each instance in {', '.join(public)} gets one: USD {ADDRESS_USD_PER_HOUR:g} an hour "
        f"(USD {month:.2f} a month), and what its security groups allow can reach it from anywhere",
        "nothing, if it is their way out: a NAT gateway and its address cost as much as ten of "
        "them. Otherwise switch off auto-assign public IPv4 address of the subnets",
    )

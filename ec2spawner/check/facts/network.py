"""Subnets, security groups, routes, and where the hub is in the VPC."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final

from ...aws.calls.client import Client, entries

ANY: Final = "-1"
"""A rule for every protocol and port."""

TCP: Final = frozenset({ANY, "tcp", "6"})

EVERYWHERE: Final = "0.0.0.0/0"

IPV6_IN_USE: Final = frozenset({"associating", "associated"})
"""EC2's states of a subnet's IPv6 block that instances have, or will have, addresses of."""

WIDE_PREFIX: Final = 7
"""Longest prefix of a range that is more than one network's own, such as the halves of IPv4."""

READ_OF_RULES: Final = frozenset(
    {"IpProtocol", "FromPort", "ToPort", "IpRanges", "Ipv6Ranges", "UserIdGroupPairs"}
)
"""Keys of EC2's rules that are read here."""

FIRST_UNPRIVILEGED: Final = 1024
"""Linux's net.ipv4.ip_unprivileged_port_start."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet of the configuration, with its number of free addresses."""

    subnet_id: str
    zone: str
    vpc_id: str
    free_addresses: int
    cidr: str = EVERYWHERE
    public_addresses: bool = False
    """Whether each instance gets a public IPv4 address, which is billed."""
    ipv6_cidrs: tuple[str, ...] = ()
    """Empty where instances have no IPv6 addresses."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a security group, as far as TCP is concerned."""

    protocol: str
    first: int
    last: int
    cidrs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    ipv6_cidrs: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Sources that may be anybody: ids of prefix lists, whose content is not read, and what EC2 may
    have added since."""

    def has_port(self, port: int) -> bool:
        """Whether it is about this TCP port."""
        return self.protocol == ANY or (self.protocol in TCP and self.first <= port <= self.last)

    def admits(self, port: int, peer: Peer) -> bool:
        """Whether it lets the other side, which has an IPv4 address, use this TCP port."""
        if not self.has_port(port):
            return False
        return bool(peer.groups & set(self.groups)) or any(
            peer.is_within(cidr) for cidr in self.cidrs
        )

    def has_unprivileged_port(self, besides: int) -> bool:
        """Whether it is about a TCP port that servers may listen at without root, but this one."""
        if self.protocol == ANY:
            return True
        ports = range(max(self.first, FIRST_UNPRIVILEGED), self.last + 1)
        return self.protocol in TCP and len(ports) > (besides in ports)

    def admits_any_of(self, subnet: Subnet, groups: frozenset[str]) -> bool:
        """Whether it names one of these groups, or a range with some addresses of the subnet.

        A single address is the hub's.
        """
        network = IPv4Network(subnet.cidr, strict=False)
        networks = [IPv6Network(each, strict=False) for each in subnet.ipv6_cidrs]
        ranges = [IPv4Network(each, strict=False) for each in self.cidrs]
        ipv6_ranges = [IPv6Network(each, strict=False) for each in self.ipv6_cidrs]
        return (
            bool(groups & set(self.groups))
            or any(each.num_addresses > 1 and each.overlaps(network) for each in ranges)
            or any(
                each.num_addresses > 1 and each.overlaps(ipv6)
                for each in ipv6_ranges
                for ipv6 in networks
            )
        )


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a connection."""

    network: str
    """Its IPv4 address, or the CIDR of all addresses that it may have."""
    groups: frozenset[str] = frozenset()

    def is_within(self, cidr: str) -> bool:
        """Whether all its addresses are in this range."""
        return IPv4Network(self.network, strict=False).subnet_of(IPv4Network(cidr, strict=False))


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group, with its rules."""

    group_id: str
    name: str
    vpc_id: str
    ingress: tuple[Rule, ...] = ()
    egress: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Where packets of some subnets go."""

    vpc_id: str
    main: bool
    """For every subnet of the VPC that has no table of its own."""
    subnets: frozenset[str]
    way_out: str
    """What 0.0.0.0/0 leads to, such as `nat-...` or `igw-...`; empty without such a route."""
    way_out_is_gone: bool = False
    """The target has been deleted: EC2 calls that route a blackhole."""
    endpoints: tuple[str, ...] = ()
    """Ids of gateway endpoints, which lead to S3 or DynamoDB without a way out."""
    unread: tuple[str, ...] = ()
    """Destinations of other wide routes, such as `::/0` or the id of a prefix list."""


@dataclass(frozen=True, slots=True)
class HubPlace:
    """The hub as instances see it."""

    address: str
    """IPv4; empty where its name could not be resolved."""
    subnets_vpc: bool = False
    """Whether a network interface of the subnets' VPC has this address."""
    groups: frozenset[str] = frozenset()
    """Security groups of that interface."""

    @property
    def peer(self) -> Peer:
        """The hub, as the other side of a connection of instances."""
        return Peer(self.address, self.groups)


async def read_subnets(client: Client, subnet_ids: Sequence[str]) -> Sequence[Subnet]:
    """The subnets with these ids, in EC2's order. Raises `CloudError` if one does not exist."""
    return await client.call(
        "describe_subnets",
        entries("Subnets", _subnet),
        SubnetIds=list(dict.fromkeys(subnet_ids)),
    )


async def read_groups(client: Client, group_ids: Collection[str]) -> Sequence[SecurityGroup]:
    """The groups with these ids. Raises `CloudError` if one does not exist."""
    return await client.call(
        "describe_security_groups",
        entries("SecurityGroups", _security_group),
        GroupIds=list(dict.fromkeys(group_ids)),
    )


async def read_default_group(client: Client, vpc_id: str) -> Sequence[SecurityGroup]:
    """The group that instances get which are launched without one. Raises `CloudError`."""
    return await client.call(
        "describe_security_groups",
        entries("SecurityGroups", _security_group),
        Filters=[
            {"Name": "vpc-id", "Values": [vpc_id]},
            {"Name": "group-name", "Values": ["default"]},
        ],
    )


async def read_route_tables(client: Client, vpc_id: str) -> Sequence[RouteTable]:
    """All of a VPC. Raises `CloudError`."""
    return await client.pages(
        "describe_route_tables",
        entries("RouteTables", _route_table),
        Filters=[{"Name": "vpc-id", "Values": [vpc_id]}],
    )


async def find_hub(client: Client, address: str, vpc_id: str) -> HubPlace:
    """Whose interface in the VPC has this private IPv4 address. Raises `CloudError`.

    That of a load balancer is not the hub's: its proxy calls notebooks from another address.
    """
    found: Sequence[tuple[frozenset[str], bool]] = await client.call(
        "describe_network_interfaces",
        entries("NetworkInterfaces", _groups),
        Filters=[
            {"Name": "addresses.private-ip-address", "Values": [address]},
            {"Name": "vpc-id", "Values": [vpc_id]},
        ],
    )
    own = [groups for groups, made_by_service in found if not made_by_service]
    return HubPlace(address, bool(own), frozenset().union(*own))


def is_ipv4(address: str) -> bool:
    """Whether it is an IPv4 address and not a name."""
    try:
        return ip_address(address).version == 4
    except ValueError:
        return False


def _subnet(subnet: Mapping[str, Any]) -> Subnet:
    return Subnet(
        subnet["SubnetId"],
        subnet["AvailabilityZone"],
        subnet["VpcId"],
        int(subnet["AvailableIpAddressCount"]),
        subnet.get("CidrBlock", EVERYWHERE),
        bool(subnet.get("MapPublicIpOnLaunch", False)),
        tuple(
            each["Ipv6CidrBlock"]
            for each in subnet.get("Ipv6CidrBlockAssociationSet", ())
            if each.get("Ipv6CidrBlockState", {}).get("State") in IPV6_IN_USE
        ),
    )


def _security_group(group: Mapping[str, Any]) -> SecurityGroup:
    return SecurityGroup(
        group["GroupId"],
        group.get("GroupName", ""),
        group["VpcId"],
        tuple(map(_rule, group.get("IpPermissions", ()))),
        tuple(map(_rule, group.get("IpPermissionsEgress", ()))),
    )


def _groups(interface: Mapping[str, Any]) -> tuple[frozenset[str], bool]:
    """An interface's groups, and whether a service of AWS made it for itself."""
    groups = frozenset(group["GroupId"] for group in interface["Groups"])
    return groups, bool(interface.get("RequesterManaged", False))


def _rule(rule: Mapping[str, Any]) -> Rule:
    return Rule(
        str(rule["IpProtocol"]),
        int(rule.get("FromPort", 0)),
        int(rule.get("ToPort", 65535)),
        tuple(each["CidrIp"] for each in rule.get("IpRanges", ())),
        tuple(each["GroupId"] for each in rule.get("UserIdGroupPairs", ()) if "GroupId" in each),
        tuple(each["CidrIpv6"] for each in rule.get("Ipv6Ranges", ())),
        tuple(_unread(rule)),
    )


def _unread(rule: Mapping[str, Any]) -> Iterator[str]:
    yield from (each["PrefixListId"] for each in rule.get("PrefixListIds", ()))
    pairs = rule.get("UserIdGroupPairs", ())
    yield from (each.get("GroupName", "a group") for each in pairs if "GroupId" not in each)
    yield from (
        key for key, value in rule.items() if value and key not in {*READ_OF_RULES, "PrefixListIds"}
    )


def _route_table(table: Mapping[str, Any]) -> RouteTable:
    routes = table.get("Routes", ())
    out: Mapping[str, Any] = next(
        (r for r in routes if r.get("DestinationCidrBlock") == EVERYWHERE), {}
    )
    associations = table.get("Associations", ())
    return RouteTable(
        table["VpcId"],
        any(each.get("Main", False) for each in associations),
        frozenset(each["SubnetId"] for each in associations if "SubnetId" in each),
        _target(out),
        out.get("State") == "blackhole",
        tuple(
            gateway
            for route in routes
            if (gateway := route.get("GatewayId", "")).startswith("vpce-")
        ),
        tuple(destination for route in routes if (destination := _wide(route))),
    )


def _wide(route: Mapping[str, Any]) -> str:
    """The destination of a route that may lead to the internet besides `0.0.0.0/0`; or empty."""
    if route.get("GatewayId", "").startswith(("vpce-", "local")):
        return ""
    cidr = route.get("DestinationCidrBlock") or route.get("DestinationIpv6CidrBlock")
    if not cidr:
        return str(route.get("DestinationPrefixListId", ""))
    prefix = ip_network(cidr, strict=False).prefixlen
    return cidr if cidr != EVERYWHERE and prefix <= WIDE_PREFIX else ""


def _target(route: Mapping[str, Any]) -> str:
    """Id of what a route leads to; EC2 has a key for each kind of target."""
    kinds = (
        "NatGatewayId",
        "GatewayId",
        "TransitGatewayId",
        "NetworkInterfaceId",
        "InstanceId",
        "VpcPeeringConnectionId",
        "CoreNetworkArn",
        "LocalGatewayId",
        "CarrierGatewayId",
    )
    known = next((str(route[kind]) for kind in kinds if route.get(kind)), "")
    return known or ("a target of an unknown kind" if route else "")

"""Subnets, security groups, routes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..address import resolve
from ..facts.network import (
    HubPlace,
    SecurityGroup,
    Subnet,
    find_hub,
    is_ipv4,
    read_default_group,
    read_groups,
    read_route_tables,
    read_subnets,
)
from ..finding import Finding, unproved
from ..topics import Topic
from ..verdicts.network import (
    judge_public_addresses,
    judge_security_groups,
    judge_subnets,
    judge_way_out,
    unread_routes,
)
from ..verdicts.ports import judge_hub_port, judge_notebook_port
from .context import Context, answer, ask


@dataclass(frozen=True, slots=True)
class Network:
    """What was read, for the steps that follow."""

    subnets: Sequence[Subnet] = ()
    groups: Sequence[SecurityGroup] = ()
    """Of instances."""
    hub: HubPlace = field(default_factory=lambda: HubPlace(""))
    hub_groups: Sequence[SecurityGroup] = ()

    @property
    def zones(self) -> list[str]:
        """Those of the subnets."""
        return sorted({subnet.zone for subnet in self.subnets})

    @property
    def public(self) -> bool:
        """Whether an instance may get a public address."""
        return any(subnet.public_addresses for subnet in self.subnets)


async def check_network(context: Context, findings: list[Finding]) -> Network:
    """Findings on subnets and all that depends on them. Raises nothing of AWS's."""
    options = context.options
    subnets, groups = await asyncio.gather(
        _subnets(context, findings), _named_groups(context, findings)
    )
    if not subnets:
        return Network()
    vpc_id = subnets[0].vpc_id
    if groups is None and not context.config.unsound & {"security_groups"}:
        found = read_default_group(context.client, vpc_id)
        groups = await ask(findings, Topic.SECURITY_GROUPS, found, "try again")
    if groups:
        clusters_beside = options.port if options.clusters.max_workers else None
        findings.append(judge_security_groups(groups, subnets, clusters_beside))
    _, place = await asyncio.gather(_routes(context, findings, subnets), _hub(context, vpc_id))
    hub, hub_groups = place
    findings.append(judge_public_addresses(subnets))
    if groups and hub is not None and not context.config.address_is_known_bad:
        api_port = _port(context.config.api_url)
        findings += [
            judge_notebook_port(groups, hub, hub_groups, options.port),
            judge_hub_port(hub_groups, groups, subnets, hub, api_port),
        ]
    elif not context.config.address_is_known_bad:
        said = "not checked before the hub's address and the security groups are fixed"
        findings += [unproved(Topic.NOTEBOOK_PORT, said), unproved(Topic.HUB_PORT, said)]
    return Network(subnets, groups or (), hub or HubPlace(""), hub_groups)


async def _subnets(context: Context, findings: list[Finding]) -> Sequence[Subnet]:
    if invalid := context.invalid(Topic.SUBNETS, "subnets"):
        findings.append(invalid)
        return ()
    fix = "use ids of subnets of this region and account in c.EC2Spawner.subnets"
    asked = read_subnets(context.client, context.options.subnets)
    subnets = await ask(findings, Topic.SUBNETS, asked, fix)
    if subnets is None:
        return ()
    findings.append(judge_subnets(subnets))
    return subnets


async def _named_groups(
    context: Context, findings: list[Finding]
) -> Sequence[SecurityGroup] | None:
    """Those of the configuration; None where it names none, nothing where they are wrong."""
    if invalid := context.invalid(Topic.SECURITY_GROUPS, "security_groups"):
        findings.append(invalid)
        return ()
    if not context.options.security_groups:
        return None
    fix = "use ids of groups of the subnets' VPC in c.EC2Spawner.security_groups"
    asked = read_groups(context.client, context.options.security_groups)
    return await ask(findings, Topic.SECURITY_GROUPS, asked, fix) or ()


async def _routes(context: Context, findings: list[Finding], subnets: Sequence[Subnet]) -> None:
    tables, error = await answer(read_route_tables(context.client, subnets[0].vpc_id))
    if error is not None:
        findings.append(unread_routes(error.code))
        return
    findings.append(judge_way_out(subnets, tables or (), installs_at_boot=context.installs_at_boot))


async def _hub(context: Context, vpc_id: str) -> tuple[HubPlace | None, Sequence[SecurityGroup]]:
    """Where the hub is, None where its name has no IPv4 address; and its security groups."""
    try:
        address = await resolve(urlsplit(context.config.api_url).hostname or "")
    except (OSError, TimeoutError):
        return None, ()
    if not is_ipv4(address):
        return None, ()
    place, _ = await answer(find_hub(context.client, address, vpc_id))
    if place is None or not place.groups:
        return place or HubPlace(address), ()
    groups, _ = await answer(read_groups(context.client, place.groups))
    return place, groups or ()


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)

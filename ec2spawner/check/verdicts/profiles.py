"""Whether the region and the account have room for what profiles ask for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.offers.quotas import ListedQuota, listed_quota
from ...core.profiles.profiles import InstanceType
from ...wire import Market
from ..finding import Finding, failed, ok, unproved, warning
from ..repairs.plan import more_vcpus
from ..topics import Topic


def judge_types(
    name: str,
    wanted: str,
    types: Sequence[InstanceType],
    zones: Mapping[str, frozenset[str]],
    unknown: Mapping[str, str],
    refused: Sequence[str],
) -> Finding:
    """Whether the zones have what a profile asks for; `zones` by instance type.

    `unknown` are the types of the profile that EC2 does not have, each with what may be meant;
    `refused` says why others cannot have the EBS volumes of a server.
    """
    if unknown:
        said = ", ".join(unknown)
        meant = " ".join(f"did you mean {close}?" for close in unknown.values() if close)
        fix = meant or "check how it is spelled: `ec2spawner prices` shows what there is"
        if not types:
            return failed(
                Topic.PROFILE, f"EC2 has no instance type {said} in this region", fix, name=name
            )
        return warning(
            Topic.PROFILE, f"EC2 has no instance type {said} in this region", fix, name=name
        )
    if refused:
        judged = warning if types else failed
        fix = (
            "leave the type out, use a newer or smaller one, or put several data sets on one volume"
        )
        return judged(Topic.PROFILE, "; ".join(refused), fix, name=name)
    if not types:
        return failed(
            Topic.PROFILE,
            f"no zone of the subnets offers {wanted}",
            "add subnets in other zones, ask for other instance types, or leave the profile out: "
            "`ec2spawner prices` shows which regions have it",
            name=name,
        )
    parts = [f"{kind.name} in {_zones(len(zones.get(kind.name, ())))}" for kind in types[:3]]
    more = f" and {len(types) - 3} more" if len(types) > 3 else ""
    return ok(Topic.PROFILE, ", ".join(parts) + more, name=name)


def _zones(number: int) -> str:
    return "1 zone" if number == 1 else f"{number} zones"


def judge_quota(
    name: str,
    types: Sequence[InstanceType],
    markets: Sequence[Market],
    quotas: Sequence[ListedQuota],
    need: Need,
) -> Finding:
    """How many of a profile the account may run at once.

    A quota counts everything of its class in the account and region, of other profiles too.
    """
    rooms = {market: found for market in markets if (found := room(market, types, quotas))}
    if not rooms:
        said = f"Service Quotas lists none for {types[0].name}"
        return unproved(Topic.QUOTA, said, name=name)
    details = "; ".join(
        f"{market} {each.fits or 'none'} ({each.quota.vcpus:g} vCPUs, one {each.kind.name} needs "
        f"{each.kind.vcpus})"
        for market, each in rooms.items()
    )
    fits = sum({each.quota.code: each.fits for each in rooms.values()}.values())
    text = f"at most {fits} of these at once in your account: {details}"
    if fits < need.servers > 1:
        text = f"{text}; c.JupyterHub.active_server_limit is {need.servers}"
    elif all(each.suffices for each in rooms.values()):
        return ok(Topic.QUOTA, text, name=name)
    short = [each for each in rooms.values() if each.fits < need.servers]
    asked = " and ".join(f'"{each.quota.name}" ({each.quota.code})' for each in short)
    fix = f"ask AWS under Service Quotas, Amazon EC2, for more of {asked}; new accounts have 0"
    repairs = [
        more_vcpus(each.quota, need.servers * each.kind.vcpus, need.region) for each in short
    ]
    judged = failed if not fits and len(rooms) == len(markets) else warning
    return judged(Topic.QUOTA, text, fix, name=name, repairs=repairs)


@dataclass(frozen=True, slots=True)
class Need:
    """What the quotas should be enough for."""

    region: str
    servers: int = 1
    """Of one profile: `c.JupyterHub.active_server_limit` where there is no other profile."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a quota leaves for instances of one type."""

    kind: InstanceType
    quota: ListedQuota

    @property
    def fits(self) -> int:
        """How many, where nothing else runs."""
        return int(self.quota.vcpus // self.kind.vcpus)

    @property
    def suffices(self) -> bool:
        """Whether it is enough for one."""
        return self.fits > 0


def room(
    market: Market, types: Sequence[InstanceType], quotas: Sequence[ListedQuota]
) -> Room | None:
    """For the smallest type that a quota has room for, else for the smallest; None if unknown.

    The types of one profile may count against several quotas.
    """
    rooms = [
        Room(kind, quota) for kind in types if (quota := listed_quota(market, kind.name, quotas))
    ]
    return min(rooms, key=lambda room: (not room.suffices, room.kind.vcpus), default=None)

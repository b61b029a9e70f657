"""Whether the region and the account have room for what profiles ask for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.offers.quotas import Quota, quota_of
from ...core.profiles.profiles import InstanceType
from ...wire import Market
from ..finding import Finding, failed, ok, unproved, warning
from ..topics import Topic


def judge_types(
    name: str,
    wanted: str,
    types: Sequence[InstanceType],
    zones: Mapping[str, frozenset[str]],
    unknown: Mapping[str, str],
) -> Finding:
    """Whether the zones have what a profile asks for; `zones` by instance type.

    `unknown` are the types of the profile that EC2 does not have, each with what may be meant.
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
    name: str, types: Sequence[InstanceType], markets: Sequence[Market], vcpus: Mapping[str, float]
) -> Finding:
    """How many of a profile the account may run at once; `vcpus` by quota code.

    A quota counts everything of its class in the account and region, of other profiles too.
    """
    rooms = {market: room for market in markets if (room := _room(market, types, vcpus))}
    if not rooms:
        return unproved(Topic.PROFILE, f"no quota for {types[0].name} is known", name=name)
    text = "; ".join(
        f"{market} {_at_once(room.fits)} ({room.vcpus:g} vCPUs, one {room.kind.name} needs "
        f"{room.kind.vcpus})"
        for market, room in rooms.items()
    )
    short = [room.quota for room in rooms.values() if not room.suffices]
    if not short:
        return ok(Topic.PROFILE, text, name=name)
    asked = " and ".join(f'"{quota.name}" ({quota.code})' for quota in short)
    fix = f"ask AWS under Service Quotas, Amazon EC2, for more of {asked}; new accounts have 0"
    judged = failed if len(short) == len(markets) else warning
    return judged(Topic.PROFILE, text, fix, name=name)


@dataclass(frozen=True, slots=True)
class _Room:
    """What a quota leaves for instances of one type."""

    kind: InstanceType
    quota: Quota
    vcpus: float

    @property
    def fits(self) -> int:
        """How many, where nothing else runs."""
        return int(self.vcpus // self.kind.vcpus)

    @property
    def suffices(self) -> bool:
        return self.fits > 0


def _at_once(number: int) -> str:
    return f"at most {number} at once" if number else "none"


def _room(
    market: Market, types: Sequence[InstanceType], vcpus: Mapping[str, float]
) -> _Room | None:
    """For the smallest type that a quota has room for, else for the smallest; None if unknown.

    The types of one profile may count against several quotas.
    """
    rooms = [
        _Room(kind, quota, vcpus[quota.code])
        for kind in types
        if (quota := quota_of(market, kind.name)) and quota.code in vcpus
    ]
    return min(rooms, key=lambda room: (not room.suffices, room.kind.vcpus), default=None)

"""What AWS's answers mean for a hub. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..core.offers.quotas import Quota, quota_of
from ..core.profiles.profiles import InstanceType
from ..provisioner.model.cloud import CloudError, Image
from ..wire import Market
from .account import MountTarget, SecurityGroup, Subnet
from .finding import Finding, State, failed, ok, unproved, warning

FEW_ADDRESSES = 16
"""A subnet with fewer free addresses will soon refuse somebody: each instance takes one."""

OLD_IMAGE_DAYS = 180
"""AWS deprecates Deep Learning AMIs, and stops patching them, after about so long."""

POLICY = "give the hub's role the policy in configs/iam-policy.json"

DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""EC2, IAM and the JSON services each have a word of their own for it."""

NO_RESPONSE = "check the network between the hub and AWS, and try again"

DRY_RUN = "DryRunOperation"

FILE_SYSTEM = "EFS file system"


def refused(name: str, error: CloudError, fix: str) -> Finding:
    """A call failed: for want of the permission, for want of an answer, or for what it asked."""
    if error.code in DENIED:
        return failed(name, f"the hub's role may not look: {error.code}", POLICY)
    if error.retryable:
        fix = NO_RESPONSE
    return failed(name, f"{error.code}: {error.message}", fix)


# --- network ---------------------------------------------------------------------------------


def judge_subnets(subnets: Sequence[Subnet]) -> Finding:
    """Fails for several VPCs or no free address; warns about few addresses or a single zone."""
    zones = sorted({subnet.zone for subnet in subnets})
    networks = {subnet.vpc_id for subnet in subnets}
    counted = ", ".join(f"{s.zone} {s.free_addresses} free" for s in subnets)
    if len(networks) > 1:
        return failed(
            "subnets",
            f"they are in {len(networks)} VPCs: {', '.join(sorted(networks))}",
            "keep those of one VPC in c.EC2Spawner.subnets: security groups are of one VPC",
        )
    if not any(subnet.free_addresses for subnet in subnets):
        return failed(
            "subnets",
            f"none has a free address: {counted}",
            "free addresses, or add larger subnets to c.EC2Spawner.subnets",
        )
    low = [s for s in subnets if s.free_addresses < FEW_ADDRESSES]
    if low:
        return warning(
            "subnets",
            f"few free addresses in {', '.join(s.subnet_id for s in low)}: {counted}",
            "add a larger subnet of the same zone to c.EC2Spawner.subnets",
        )
    if len(zones) == 1:
        return warning(
            "subnets",
            f"all in {zones[0]}: spot is there far less often than in any of several zones",
            "add a subnet in each zone of the region to c.EC2Spawner.subnets",
        )
    return ok("subnets", f"{len(zones)} zones: {counted}")


def judge_security_groups(groups: Sequence[SecurityGroup], subnets: Sequence[Subnet]) -> Finding:
    """Fails for groups of another VPC than the subnets."""
    networks = {subnet.vpc_id for subnet in subnets}
    foreign = [group for group in groups if group.vpc_id not in networks]
    if foreign:
        return failed(
            "security groups",
            f"{', '.join(g.group_id for g in foreign)} is of another VPC than the subnets",
            "use groups of the subnets' VPC in c.EC2Spawner.security_groups",
        )
    return ok("security groups", ", ".join(f"{g.group_id} ({g.name})" for g in groups))


# --- image -----------------------------------------------------------------------------------


def judge_image(image: Image, now: datetime) -> Finding:
    """Warns about an image that is older than `OLD_IMAGE_DAYS`."""
    said = [image.image_id, image.name]
    age = (now - image.created_at).days if image.created_at else None
    if age is not None:
        said.append(f"{age} days old")
    said.append(f"NVIDIA driver {image.driver}" if image.driver else "driver not stated")
    text = ", ".join(part for part in said if part)
    if age is not None and age > OLD_IMAGE_DAYS:
        return warning("image", text, "bake a newer one: old images miss security fixes")
    return ok("image", text)


def judge_agent(stock: bool, package: str) -> Finding:
    """Whether ec2spawner is on a booted instance; `package` is what would be installed."""
    if not stock:
        said = "whether the image has ec2spawner in it is seen when an instance boots it"
        return unproved("agent", said)
    if not package:
        return failed(
            "agent",
            "AWS's own image has no ec2spawner, and this version is not published to be installed",
            "c.EC2Spawner.image with ec2spawner baked in, or c.EC2Spawner.agent_package",
        )
    return warning(
        "agent",
        f"AWS's own image has no ec2spawner: each instance installs {package}, which takes minutes",
        "bake an image: see docs/first-hub-on-aws.md",
    )


# --- permissions -----------------------------------------------------------------------------


def judge_dry_run(action: str, error: CloudError | None) -> Finding:
    """What EC2 answered to a call with DryRun: it always answers with an error."""
    name = f"permission {action}"
    if error is None:
        return failed(
            name,
            "the endpoint did not honour DryRun",
            "use AWS's own endpoint, or one that does, in c.EC2Spawner.endpoint_url",
        )
    if error.code == DRY_RUN:
        return ok(name, "granted")
    if error.code in DENIED:
        role = "; with an instance profile also iam:PassRole of its role (configs/README.md)"
        return failed(name, "not granted", POLICY + (role if action == "ec2:RunInstances" else ""))
    if error.retryable:
        return unproved(name, f"no answer: {error.code}", "try again")
    if error.code.startswith("InvalidLaunchTemplate"):
        return unproved(
            name, "EC2 looks for the launch template first, which the first start makes"
        )
    return unproved(name, f"EC2 refused the DryRun for another reason: {error.code}")


def judge_reservations(error: CloudError | None) -> Finding:
    """DescribeReservedInstances with DryRun: a hub works without it."""
    found = judge_dry_run("ec2:DescribeReservedInstances", error)
    if found.state is not State.FAILED:
        return found
    return warning(found.name, f"{found.said}: Reserved Instances are not used first", POLICY)


# --- homes -----------------------------------------------------------------------------------


def judge_file_system(
    file_system: str, targets: Sequence[MountTarget], subnets: Sequence[Subnet]
) -> Finding:
    """Whether instances in all of the subnets can mount an EFS file system.

    Its name resolves to the mount target of an instance's own zone, inside the VPC of that alone.
    """
    networks = {subnet.vpc_id for subnet in subnets}
    here = {target.zone for target in targets if target.vpc_id in networks}
    fix = (
        "make a mount target in each zone of c.EC2Spawner.subnets (EFS, Network), or correct "
        "file_system in c.EC2Spawner.home"
    )
    if not here:
        where = "in another VPC than the subnets" if targets else "in this region"
        known = "mount targets only" if targets else "no mount target"
        return failed(FILE_SYSTEM, f"{file_system} has {known} {where}", fix)
    missing = sorted({subnet.zone for subnet in subnets} - here)
    if missing:
        said = f"{file_system} has no mount target in {', '.join(missing)}: starts there would fail"
        return failed(FILE_SYSTEM, said, fix)
    return ok(FILE_SYSTEM, f"{file_system} has a mount target in each zone of the subnets")


# --- profiles --------------------------------------------------------------------------------


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
            return failed(name, f"EC2 has no instance type {said} in this region", fix)
        return warning(name, f"EC2 has no instance type {said} in this region", fix)
    if not types:
        return failed(
            name,
            f"no zone of the subnets offers {wanted}",
            "add subnets in other zones, ask for other instance types, or leave the profile out: "
            "`ec2spawner prices` shows which regions have it",
        )
    parts = [f"{kind.name} in {_zones(len(zones.get(kind.name, ())))}" for kind in types[:3]]
    more = f" and {len(types) - 3} more" if len(types) > 3 else ""
    return ok(name, ", ".join(parts) + more)


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
        return unproved(name, f"no quota for {types[0].name} is known")
    text = "; ".join(
        f"{market} {_at_once(room.fits)} ({room.vcpus:g} vCPUs, one {room.kind.name} needs "
        f"{room.kind.vcpus})"
        for market, room in rooms.items()
    )
    short = [room.quota for room in rooms.values() if not room.suffices]
    if not short:
        return ok(name, text)
    asked = " and ".join(f'"{quota.name}" ({quota.code})' for quota in short)
    fix = f"ask AWS under Service Quotas, Amazon EC2, for more of {asked}; new accounts have 0"
    judged = failed if len(short) == len(markets) else warning
    return judged(name, text, fix)


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


# --- prices ----------------------------------------------------------------------------------


def judge_prices(
    market: Market, known: int, asked: int, *, bundled: bool, error: CloudError | None = None
) -> Finding:
    """Whether the prices of so many instance types can be read; `bundled`: a table stands in."""
    name = f"prices {market}"
    if error is not None:
        action = "ec2:DescribeSpotPriceHistory" if market is Market.SPOT else "pricing:GetProducts"
        fix = f"{POLICY}: {action}" if error.code in DENIED else "try again in a few minutes"
        if market is Market.ON_DEMAND and bundled:
            return warning(name, f"{error.code}: the bundled table of list prices is used", fix)
        return failed(name, f"{error.code}: pages would show no price", fix)
    if known == 0:
        return warning(name, "AWS lists none of these types", "ask for other machines")
    return ok(name, f"{known} of {asked} instance types")

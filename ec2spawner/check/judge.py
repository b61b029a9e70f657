"""What AWS's answers mean for a hub. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ..aws.account import SecurityGroup, Subnet
from ..core.quotas import quota_of
from ..data import InstanceType
from ..provisioner.cloud import CloudError, Image
from ..wire import Market
from .finding import Finding, failed, ok, unproved, warning

FEW_ADDRESSES = 16
"""A subnet with fewer free addresses will soon refuse somebody: each instance takes one."""

OLD_IMAGE_DAYS = 180
"""AWS deprecates Deep Learning AMIs, and stops patching them, after about so long."""

POLICY = "give the hub's role the policy in configs/iam-policy.json"

DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""EC2, IAM and the JSON services each have a word of their own for it."""

DRY_RUN = "DryRunOperation"


def refused(name: str, error: CloudError, mend: str) -> Finding:
    """A call failed: for want of the permission, for want of an answer, or for what it asked."""
    if error.code in DENIED:
        return failed(name, f"the hub's role may not look: {error.code}", POLICY)
    if error.retryable:
        mend = "check the network between the hub and AWS, and try again"
    return failed(name, f"{error.code}: {error.message}", mend)


# --- network ---------------------------------------------------------------------------------


def judge_subnets(subnets: Sequence[Subnet]) -> Finding:
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
        return failed(name, "not granted", POLICY)
    if error.retryable:
        return unproved(name, f"no answer: {error.code}", "try again")
    if error.code.startswith("InvalidLaunchTemplate"):
        return unproved(
            name, "EC2 looks for the launch template first, which the first start makes"
        )
    return unproved(name, f"EC2 refused the trial for another reason: {error.code}")


# --- profiles --------------------------------------------------------------------------------


def judge_types(
    name: str, wanted: str, types: Sequence[InstanceType], zones: Mapping[str, frozenset[str]]
) -> Finding:
    """Whether the zones have what a profile asks for; `zones` by instance type."""
    if not types:
        return failed(
            name,
            f"no zone of the subnets offers {wanted}",
            "add subnets in other zones, ask for another machine, or leave the profile out: "
            "`ec2spawner prices` shows which regions have it",
        )
    parts = [f"{kind.name} in {len(zones.get(kind.name, ()))} zones" for kind in types[:3]]
    more = f" and {len(types) - 3} more" if len(types) > 3 else ""
    return ok(name, ", ".join(parts) + more)


def judge_quota(
    name: str,
    types: Sequence[InstanceType],
    markets: Sequence[Market],
    vcpus: Mapping[str, float],
) -> Finding:
    """Whether the account may run one of a profile at all; `vcpus` by quota code."""
    smallest = min(types, key=lambda kind: kind.vcpus)
    quotas = {market: quota_of(market, smallest.name) for market in markets}
    known = {m: (q, vcpus[q.code]) for m, q in quotas.items() if q and q.code in vcpus}
    if not known:
        return unproved(name, f"no quota for {smallest.name} is known")
    said = ", ".join(f"{market} {limit:g} vCPUs" for market, (_, limit) in known.items())
    text = f"{said}; one {smallest.name} needs {smallest.vcpus}"
    short = [quota for quota, limit in known.values() if limit < smallest.vcpus]
    if not short:
        return ok(name, text)
    asked = " and ".join(f'"{quota.name}" ({quota.code})' for quota in short)
    mend = f"ask AWS under Service Quotas, Amazon EC2, for more of {asked}; new accounts have 0"
    judged = failed if len(short) == len(known) else warning
    return judged(name, text, mend)


# --- prices ----------------------------------------------------------------------------------


def judge_prices(
    market: Market, known: int, asked: int, *, bundled: bool, error: CloudError | None = None
) -> Finding:
    """Whether the prices of so many instance types can be read; `bundled`: a table stands in."""
    name = f"prices {market}"
    if error is not None:
        action = "ec2:DescribeSpotPriceHistory" if market is Market.SPOT else "pricing:GetProducts"
        mend = f"{POLICY}: {action}" if error.code in DENIED else "try again; see docs on prices"
        if market is Market.ON_DEMAND and bundled:
            return warning(name, f"{error.code}: the bundled table of list prices is used", mend)
        return failed(name, f"{error.code}: pages would show no price", mend)
    if known == 0:
        return warning(name, "AWS lists none of these types", "ask for other machines")
    return ok(name, f"{known} of {asked} instance types")

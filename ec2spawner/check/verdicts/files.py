"""Whether instances can reach users' files. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..account import MountTarget, Subnet
from ..finding import Finding, failed, ok
from ..topics import Topic


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
        return failed(Topic.FILE_SYSTEM, f"{file_system} has {known} {where}", fix)
    missing = sorted({subnet.zone for subnet in subnets} - here)
    if missing:
        said = f"{file_system} has no mount target in {', '.join(missing)}: starts there would fail"
        return failed(Topic.FILE_SYSTEM, said, fix)
    return ok(Topic.FILE_SYSTEM, f"{file_system} has a mount target in each zone of the subnets")

"""Whether instances can reach users' files. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...provisioner.model.cloud.cloud import CloudError
from ..facts.account import MountTarget
from ..facts.buckets import Bucket
from ..facts.network import Subnet
from ..finding import Finding, failed, ok, unproved, warning
from ..topics import Topic
from .refusals import refused


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


def judge_shared_homes(file_system: str) -> Finding:
    """Whether users are kept out of each other's homes on an EFS file system: what an image allows
    is seen on an instance, by its agent. AWS's own image is refused with the options."""
    return unproved(
        Topic.SHARED_HOMES,
        f"root on an instance can read and change all homes on {file_system}: agents refuse to "
        "mount them where the image lets its notebook user become root",
        'use "kind": "ebs" in c.EC2Spawner.home, or an image whose notebook user cannot become '
        "root: see docs/security.md, Homes on EFS",
    )


def judge_snapshot(snapshot: str, state: str | None, error: CloudError | None) -> Finding:
    """Whether data volumes can be made from a snapshot. `state` is EC2's word, `error` what it
    answered instead."""
    name = f"data volume {snapshot}"
    fix = (
        "correct the snapshot in data_volumes, copy it to this region, or let its account share "
        "it with yours; without the data, remove the line"
    )
    if error is not None:
        return refused(Topic.DATA_VOLUME, error, fix, name=name)
    if state != "completed":
        said = f"its snapshot is {state or 'unknown'}: no volume can be made from it"
        return failed(
            Topic.DATA_VOLUME, said, "wait until it is completed, or use another", name=name
        )
    return ok(Topic.DATA_VOLUME, "its snapshot is there, and completed", name=name)


def judge_bucket(bucket: Bucket, region: str) -> Finding:
    """Whether S3 has a bucket, and in the region of the instances."""
    name = f"bucket {bucket.name}"
    if bucket.status == 404:
        return failed(
            Topic.BUCKET,
            "S3 has no bucket of this name: each start that mounts it would fail",
            "create it, or correct it in c.EC2Spawner.buckets",
            name=name,
        )
    if bucket.status == 0 or bucket.status >= 500:
        said = "S3 did not answer"
        return unproved(Topic.BUCKET, said, "check the network between the hub and S3", name=name)
    if bucket.region and bucket.region != region:
        return warning(
            Topic.BUCKET,
            f"it is in {bucket.region}: reading it from {region} is slow, and billed by the GB",
            f"copy the data to a bucket in {region}",
            name=name,
        )
    return ok(Topic.BUCKET, "it exists; that instances may read it is up to their role", name=name)

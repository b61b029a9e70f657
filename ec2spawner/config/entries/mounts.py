"""What an instance mounts besides the home: data from snapshots, buckets, its own fast disks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ...provisioner.model.cloud.launch import DATA_DEVICES
from ..values import Words, listed, shown, wrong

MAX_BUCKETS: Final = 20
"""Each is a process of its own on the instance."""

_TAKEN: Final = frozenset(
    "bin boot dev etc home lib lib32 lib64 libx32 proc root run sbin sys tmp usr var".split()
)
"""Folders of the system, of homes, and those in which anybody may put a link."""


def _path(value: str) -> str:
    fix = 'write a folder of its own, such as "/data/imagenet"'
    if not re.fullmatch(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,8}", value) or len(value) > 200:
        wrong(f"{shown(value)} is no absolute path in plain letters", fix)
    top = value.split("/")[1]
    if top in _TAKEN:
        wrong(f"{shown(value)} is below /{top}, which is the system's or people's own", fix)
    return value


def _bucket(value: str) -> str:
    # S3's rules for the names of general purpose buckets.
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", value)
    if not is_name or ".." in value or re.fullmatch(r"[\d.]+", value):
        wrong(f"{shown(value)} is no name of an S3 bucket", 'write it like "my-data"')
    return value


def _prefix(value: str) -> str:
    if value.startswith("/"):
        wrong(f"{shown(value)} begins with a slash, as no key does", f'write "{value.lstrip("/")}"')
    if value and not value.endswith("/"):
        wrong(f"{shown(value)} does not end in a slash", f'write "{value}/"')
    if not re.fullmatch(r"[\x20-\x7e]{0,512}", value):
        wrong(f"{shown(value)} is too long, or has letters that are not ASCII", "shorten it")
    return value


def id_like(prefix: str, kind: str) -> AfterValidator:
    """An AWS id such as `fs-0a1b2c3d`, or nothing."""

    def check(value: str) -> str:
        if value and not re.fullmatch(rf"{prefix}-[0-9a-f]{{8,40}}", value):
            wrong(f"{shown(value)} is no id of an {kind}", f'write it like "{prefix}-0a1b2c3d"')
        return value

    return AfterValidator(check)


def efs_root(value: str) -> str:
    """Validate a folder of an EFS file system: `/` or up to three levels below it."""
    if not re.fullmatch(r"/|(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,3}", value):
        wrong(f"{shown(value)} is no folder of a file system", 'write it like "/homes"')
    return value


MountPath = Annotated[str, AfterValidator(_path)]


def _off(value: object) -> object:
    if value is True:
        wrong("True is no path", 'write "/scratch", or False')
    return "" if value is False else value


def _scratch(value: str) -> str:
    return _path(value) if value else ""


Scratch = Annotated[
    str | Literal[False], BeforeValidator(_off), AfterValidator(lambda value: _scratch(value or ""))
]
"""A path; `False` and the empty text leave the disks alone."""


class DataVolumeConfig(Words):
    """One data set that every instance gets as a volume of its own, made from a snapshot."""

    snapshot: Annotated[str, Field(min_length=1), id_like("snap", "EBS snapshot")] = Field(
        description="Id of an EBS snapshot in the region, with one file system on it: ext4, xfs "
        "or btrfs. The volume is encrypted if it is.",
        examples=["snap-0a1b2c3d"],
    )
    path: MountPath = Field(description="Mount point, read-only.", examples=["/data/imagenet"])


class BucketConfig(Words):
    """One S3 bucket, mounted with Mountpoint for Amazon S3 and the role of `instance_profile`."""

    bucket: Annotated[str, AfterValidator(_bucket)] = Field(
        description="Name of the bucket.", examples=["my-data"]
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="",
        description="Only keys with this prefix, shown without it. Ends in `/`.",
        examples=["images/2026/"],
    )
    path: MountPath = Field(description="Mount point.", examples=["/data/my-data"])
    read_only: bool = Field(
        default=True,
        description="False allows users to write new objects, and to replace and delete existing "
        "ones.",
    )


DataVolumes = Annotated[tuple[DataVolumeConfig, ...], BeforeValidator(listed)]
Buckets = Annotated[tuple[BucketConfig, ...], BeforeValidator(listed)]


def mount_problems(
    volumes: Sequence[DataVolumeConfig], buckets: Sequence[BucketConfig], scratch: str
) -> list[tuple[str, str]]:
    """What is wrong with mounts that are each valid, and how to fix it."""
    problems = []
    paths = [scratch] if scratch else []
    paths += [each.path for each in volumes] + [each.path for each in buckets]
    for one, other in _inside_each_other(paths):
        what = f'"{one}" and "{other}" are mounted over each other'
        problems.append((what, "give each mount a path of its own, none within another"))
    if len(volumes) > len(DATA_DEVICES):
        what = f"{len(volumes)} data volumes are more than an instance is given"
        problems.append((what, f"{len(DATA_DEVICES)} at most: put several data sets on one"))
    if len(buckets) > MAX_BUCKETS:
        problems.append((f"{len(buckets)} buckets are too many", f"{MAX_BUCKETS} at most"))
    return problems


def _inside_each_other(paths: Iterable[str]) -> list[tuple[Any, Any]]:
    return [
        (one, other)
        for one, other in combinations(sorted(paths), 2)
        if f"{other}/".startswith(f"{one}/")
    ]

"""`c.EC2Spawner.home`: where a user's files live, and what becomes of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ...core.homes.snapshot_schedule import Schedule
from ...provisioner.model.settings import HomeRules
from ..values import MAX_DISK_GIB, Bounds, PositiveDuration, Words, as_written, wrong
from .mounts import efs_root, id_like

SHORTEST_BETWEEN_SNAPSHOTS = 3600.0
"""Seconds. Each one is a call for each home, and EC2 has five under way for a volume at most."""


class HomeBounds(Bounds):
    """Sizes that a user may choose for their home, in GiB."""

    min: int = Field(ge=1, le=MAX_DISK_GIB, description="The smallest, in GiB.", examples=[20])
    max: int = Field(ge=1, le=MAX_DISK_GIB, description="The largest, in GiB.", examples=[500])


class SnapshotSchedule(Words):
    """Snapshots of homes: copies of a volume as it was, kept by EC2 outside of any zone."""

    every: PositiveDuration = Field(
        default=as_written("1d"),
        description="A home that was used since its newest snapshot gets another one after this "
        "time; at least 1h.",
    )
    keep: int = Field(
        default=7,
        ge=1,
        le=100,
        description="How many snapshots of each home are kept; older ones are deleted.",
    )

    @model_validator(mode="after")
    def _not_all_the_time(self) -> Self:
        if self.every < SHORTEST_BETWEEN_SNAPSHOTS:
            wrong(f"a snapshot every {self.every:g} s is more than EC2 takes", '"every": "1h"')
        return self


class HomeConfig(Words):
    """Where a user's files live."""

    kind: Literal["ebs", "efs", "none"] = Field(
        default="ebs",
        description=(
            "`ebs`: a volume for each server of each user, kept when the server stops and bound "
            "to one availability zone. `efs`: a folder for each server on one EFS file system, "
            "in any zone. `none`: nothing is kept."
        ),
    )
    file_system: Annotated[str, id_like("fs", "EFS file system")] = Field(
        default="",
        description="`efs`: id of the file system, which has a mount target in each zone of "
        "`subnets`. Required.",
        examples=["fs-0a1b2c3d"],
    )
    access_point: Annotated[str, id_like("fsap", "EFS access point")] = Field(
        default="",
        description="`efs`: id of an access point through which instances mount the file system. "
        "Its user must be the notebook user. Empty is none.",
        examples=["fsap-0a1b2c3d"],
    )
    root: Annotated[str, AfterValidator(efs_root)] = Field(
        default="/homes",
        description="`efs`: folder of all homes on the file system, or below the access point's "
        "folder.",
    )
    tls: bool = Field(
        default=True,
        description="`efs`: mount over TLS, which needs amazon-efs-utils in the image. False "
        "mounts with plain NFS 4.1: anyone who can read the VPC's traffic can read the files.",
    )
    size_gib: int = Field(
        default=50,
        ge=1,
        le=MAX_DISK_GIB,
        description="`ebs`: default size of a home, in GiB. A smaller existing home grows to it at "
        "its next start; homes never shrink.",
    )
    user_may_choose: HomeBounds | None = Field(
        default=None,
        description="`ebs`: sizes that users may choose for their homes. None: no choice.",
        examples=[{"min": 20, "max": 500}],
    )
    volume_type: Literal["gp3", "gp2"] = Field(
        default="gp3", description="`ebs`: EBS volume type of new homes."
    )
    encrypted: bool = Field(default=True, description="`ebs`: encrypt new homes.")
    kms_key: str = Field(
        default="",
        description="`ebs`: id, ARN or alias of the KMS key of new homes. Empty is the account's "
        "default key for EBS.",
        examples=["alias/notebooks"],
    )
    move: Literal["ask", "never"] = Field(
        default="ask",
        description="`ebs`: what to do when a home's zone has no instance for a start and another "
        "zone has one. `ask`: offer to move the home there by snapshot, with time and cost. "
        "`never`: no offer.",
    )
    named_servers: Literal["empty", "copy"] = Field(
        default="empty",
        description="`ebs`: how the home of a new named server begins. `empty`: without files. "
        "`copy`: as a copy of the home of the user's default server, if there is one, in its zone. "
        "Later changes reach neither of them from the other.",
    )
    snapshots: SnapshotSchedule | None = Field(
        default=None,
        description="`ebs`: schedule of snapshots of homes. None: no snapshots.",
        examples=[{"every": "1d", "keep": 7}],
    )
    delete_forever: bool = Field(
        default=False,
        description="`ebs`: when a user, or one of their named servers, is deleted in JupyterHub, "
        "delete the home and all its snapshots, too. Otherwise they are kept, and cost money.",
    )

    @model_validator(mode="after")
    def _options_of_the_kind(self) -> Self:
        if self.kind == "efs" and not self.file_system:
            wrong("kind efs names no file system", 'add "file_system": "fs-..."')
        if self.kind != "efs" and (self.file_system or self.access_point):
            wrong(f"names a file system, and its kind is {self.kind}", '"kind": "efs"')
        if self.kind != "ebs" and self.named_servers == "copy":
            wrong(
                f"named_servers copies volumes, and kind {self.kind} has none",
                '"named_servers": "empty"',
            )
        if self.access_point and not self.tls:
            wrong("EFS takes an access point only over TLS", '"tls": True')
        return self

    @model_validator(mode="after")
    def _size_within_the_bounds(self) -> Self:
        bounds = self.user_may_choose
        if bounds and not bounds.min <= self.size_gib <= bounds.max:
            wrong(
                f"user_may_choose leaves out size_gib, {self.size_gib}",
                'widen it, or give a "size_gib" within it',
            )
        return self

    @model_validator(mode="after")
    def _a_key_encrypts(self) -> Self:
        if self.kms_key and not self.encrypted:
            wrong("kms_key is a key for nothing while encrypted is off", '"encrypted": True')
        return self

    def rules(self) -> HomeRules:
        """As the provisioner gets it."""
        schedule = None
        if self.snapshots is not None:
            schedule = Schedule(every=self.snapshots.every, keep=self.snapshots.keep)
        return HomeRules(
            volume_type=self.volume_type,
            encrypted=self.encrypted,
            kms_key=self.kms_key,
            may_move=self.move == "ask",
            schedule=schedule,
            delete_forever=self.delete_forever,
        )

"""`c.EC2Spawner.sleep` and `c.EC2Spawner.interruption`: what is saved of a session before its
instance goes, and what follows."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from ...core.sleep.rules import AfterInterruption, SleepRules
from ..values import Duration, PositiveDuration, Words, as_written, shown, wrong

LONGEST_SAVE: Final = 1800.0
"""Seconds: the instance is paid meanwhile, and a gp3 volume takes 200 GiB in that time."""


def _s3_url(value: str) -> str:
    if not value:
        return value
    if not re.fullmatch(
        r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w@=+-][\w.@=+-]*){0,8}/?", value, re.A
    ):
        wrong(f"{shown(value)} is no place in S3", 'write it like "s3://my-results/interrupted/"')
    return value.rstrip("/") + "/"


class SleepConfig(Words):
    """How the variables of a server's kernels are saved, and for how long they are kept."""

    save: Duration = Field(
        default=as_written("5m"),
        description="The longest that saving may take, before the instance of an idle server "
        "ends. After a spot notice there are about 100 s, whatever this says. At most 30m. With 0 "
        "no variables are saved.",
    )
    keep: PositiveDuration = Field(
        default=as_written("30d"),
        description="A sleeping session expires after this time: it can no longer be woken, and "
        "its files are deleted when its owner's server starts next.",
    )
    max_disk_gib: int = Field(
        default=50,
        ge=1,
        le=16384,
        description="The most that a sleeping session may take of the home's disk, in GiB. Some "
        "of the disk stays free in any case.",
    )

    @model_validator(mode="after")
    def _save_in_time(self) -> Self:
        if self.save > LONGEST_SAVE:
            wrong(
                f"{self.save:g} s is long for an instance that nobody uses and somebody pays",
                'make "save" 30m or less',
            )
        return self

    def changed_by(self, override: SleepConfig) -> SleepConfig:
        """These words with what the override writes in their place."""
        written = {name: getattr(override, name) for name in override.model_fields_set}
        return self.model_copy(update=written)


class InterruptionConfig(Words):
    """What follows when AWS reclaims a spot instance with a running server."""

    then: AfterInterruption = Field(
        default="resume",
        description="`resume`: the server continues on another instance, spot when available, "
        "otherwise on-demand, as far as its profile's `market` allows. `resume-on-demand`: on an "
        "on-demand instance. `stop`: it stops, and its user starts it again.",
    )

    upload: Annotated[str, AfterValidator(_s3_url)] = Field(
        default="",
        description="Where a folder of the user is uploaded when AWS reclaims the instance, with "
        "the role of `instance_profile`: `s3://bucket/prefix/`, where each server has a prefix of "
        "its own. The user chooses the folder: `~/.ec2spawner/upload`, which may be a link. Empty "
        "uploads nothing.",
        examples=["s3://my-results/interrupted/"],
    )


def sleep_rules(sleep: SleepConfig, interruption: InterruptionConfig, home_kind: str) -> SleepRules:
    """As a lease carries it. Without a home nothing outlives the instance, so nothing is saved."""
    return SleepRules(
        save_seconds=0.0 if home_kind == "none" else sleep.save,
        max_bytes=sleep.max_disk_gib * 2**30,
        keep_seconds=sleep.keep,
        after_interruption=interruption.then,
        upload_to=interruption.upload,
    )

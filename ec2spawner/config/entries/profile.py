"""One entry of `c.EC2Spawner.profile_list`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ... import data
from ...core import names
from ...core.profiles.choices import MARKETS_OF, open_markets
from ...core.profiles.placement import fits_cluster_placement
from ...wire import Market
from ..values import (
    MAX_DISK_GIB,
    Bounds,
    OrFunction,
    PositiveDuration,
    SpawnerFunction,
    Texts,
    Words,
    as_written,
    listed,
    shown,
    suggest,
    wrong,
)
from .after_stop import AfterStopWords
from .idle import IdleConfig
from .mounts import Buckets, DataVolumes
from .sleep import InterruptionConfig, SleepConfig

MarketWord = Literal["spot-first", "spot-wait", "spot-only", "on-demand"]


class DiskBounds(Bounds):
    """Sizes that a user may choose for the instance's own disk, in GiB."""

    min: int = Field(ge=8, le=MAX_DISK_GIB, description="The smallest, in GiB.", examples=[50])
    max: int = Field(ge=8, le=MAX_DISK_GIB, description="The largest, in GiB.", examples=[500])


class IdleBounds(Bounds):
    """Times that a user may choose for the idle limit `server`."""

    UNIT: ClassVar[str] = " s"
    min: PositiveDuration = Field(description="The shortest.", examples=["15m"])
    max: PositiveDuration = Field(description="The longest.", examples=["4h"])


class ProfileOptions(Words):
    """What a profile leaves to its user. What is left out is no choice."""

    market: Annotated[tuple[MarketWord, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="The markets to choose from; the profile's own is always one of them.",
        examples=[["spot-first", "on-demand"]],
    )
    wait_for_spot: bool = Field(
        default=True,
        description="Whether users of a profile that buys spot may choose `spot-wait`: to wait "
        "while spot is sold out, and to be asked before anything more expensive is bought.",
        examples=[False],
    )
    disk_gib: DiskBounds | None = Field(
        default=None,
        description="Bounds of the instance's root disk, in GiB; they include the profile's own "
        "size.",
        examples=[{"min": 50, "max": 500}],
    )
    idle: IdleBounds | None = Field(
        default=None,
        description="Bounds of the idle limit `server`; they include the profile's own limit.",
        examples=[{"min": "15m", "max": "4h"}],
    )


class Profile(Words):
    """What a person can pick. Say the machine by `gpu`, by `vcpus` and `memory_gib`, or by
    `instance_types`."""

    display_name: str = Field(
        min_length=1, max_length=100, description="The name on the card.", examples=["T4, 16 GB"]
    )
    slug: str = Field(
        default="",
        description="The name in the REST API and in stored choices. Derived from `display_name` "
        "by default.",
        examples=["t4"],
    )
    description: str = Field(default="", max_length=500, description="A sentence for the card.")
    default: bool = Field(
        default=False,
        description="Used if a user chooses none: the first default that they may use.",
    )
    gpu: str | None = Field(
        default=None, description="GPU model as EC2 names it; upper or lower case.", examples=["T4"]
    )
    gpu_count: int = Field(default=1, ge=1, description="Exactly this many GPUs.", examples=[1])
    min_gpu_memory_gb: int = Field(
        default=0,
        ge=0,
        description="At least this much memory on each GPU, in GB as in its datasheet.",
        examples=[24],
    )
    vcpus: int = Field(default=0, ge=0, description="At least this many vCPUs.", examples=[4])
    memory_gib: float = Field(
        default=0, ge=0, description="At least this much memory, in GiB.", examples=[16]
    )
    instance_types: Texts = Field(
        default=(),
        description="Exactly these EC2 instance types, best first, instead of a description.",
        examples=[["g4dn.xlarge"]],
    )
    market: MarketWord = Field(
        default="spot-first",
        description="Spot when available and otherwise on-demand; spot with a wait while it is "
        "sold out; spot or fail; or on-demand.",
    )
    disk_gib: int | None = Field(
        default=None,
        ge=8,
        le=MAX_DISK_GIB,
        description="Size of the instance's root disk, in GiB; the hub's `disk_gib` if unset.",
        examples=[100],
    )
    data_volumes: DataVolumes = Field(
        default=(),
        description="Data sets from snapshots, in addition to the hub's `data_volumes`.",
        examples=[[{"snapshot": "snap-0a1b2c3d", "path": "/data/imagenet"}]],
    )
    buckets: Buckets = Field(
        default=(),
        description="S3 buckets, in addition to the hub's `buckets`.",
        examples=[[{"bucket": "my-data", "path": "/data/my-data"}]],
    )
    profile_options: ProfileOptions = Field(
        default=as_written({}),
        description="What users may choose, and the bounds.",
        examples=[{"market": ["on-demand"], "disk_gib": {"min": 50, "max": 500}}],
    )
    placement_group: Literal["cluster"] | None = Field(
        default=None,
        description="`cluster` puts the workers of a [cluster](../how-to/clusters.md) close "
        "together: they are launched into an EC2 placement group of this strategy, which the hub "
        "makes for each cluster. Burstable (T), flex and Mac types cannot be in one. Servers are "
        "launched without.",
        examples=["cluster"],
    )
    groups: Annotated[Texts | SpawnerFunction, OrFunction()] = Field(
        default=(),
        description="Only members of these JupyterHub groups may use it; empty is everyone. Or a "
        "sync or async function of the spawner that returns whether its user may.",
        examples=[["research"]],
    )
    idle: IdleConfig = Field(
        default=as_written({}),
        description="Overrides of the hub's `idle` for this profile.",
        examples=[{"server": "20m"}],
    )
    after_stop: AfterStopWords | None = Field(
        default=None, description="Replaces the hub's `after_stop`.", examples=[{"stop": "7d"}]
    )
    sleep: SleepConfig = Field(
        default=as_written({}),
        description="Overrides of the hub's `sleep` for this profile.",
        examples=[{"max_disk_gib": 200}],
    )
    interruption: InterruptionConfig | None = Field(
        default=None,
        description="Replaces the hub's `interruption`.",
        examples=[{"then": "resume-on-demand"}],
    )

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, value: str | None) -> str | None:
        if not value:
            return None
        known = _gpus()
        if value.casefold() not in known:
            wrong(f"EC2 has no GPU called {shown(value)}", suggest(value, known.values()))
        return known[value.casefold()]

    @field_validator("instance_types")
    @classmethod
    def _types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(instance_type, value))

    @model_validator(mode="before")
    @classmethod
    def _slug_from_name(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and not raw.get("slug") and raw.get("display_name"):
            name = str(raw["display_name"])
            return {**raw, "slug": names.readable(name) or names.slug(name)}
        return raw

    @field_validator("slug")
    @classmethod
    def _valid_slug(cls, value: str) -> str:
        if value and not names.is_slug(value):
            wrong(
                f"{shown(value)} is no slug",
                f'use a-z, 0-9 and "-", such as "{names.readable(value) or "t4"}"',
            )
        return value

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        described = self.gpu or self.vcpus or self.memory_gib
        if self.instance_types and described:
            wrong(
                "names its instance types and describes them too",
                "keep instance_types, or gpu, vcpus and memory_gib",
            )
        if not self.gpu and (self.gpu_count != 1 or self.min_gpu_memory_gb):
            wrong("asks for GPUs without their model", 'add "gpu", such as "gpu": "T4"')
        if not self.instance_types and not described:
            wrong(
                "says nothing about the machine",
                'add "gpu", or "vcpus" and "memory_gib", or "instance_types"',
            )
        return self

    @model_validator(mode="after")
    def _types_fit_the_placement(self) -> Self:
        wrong_types = [each for each in self.instance_types if not fits_cluster_placement(each)]
        if self.placement_group and wrong_types:
            wrong(
                f"EC2 has no placement group of strategy {shown(self.placement_group)} for "
                f"{shown(wrong_types[0])}",
                "leave placement_group out, or name types that are not burstable, flex or Mac",
            )
        return self

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets to try, in order."""
        return MARKETS_OF[self.market]

    @property
    def every_market(self) -> Set[Market]:
        """All that a server may run in, by the profile's own market or by its user's choice."""
        return {market for word in open_markets(self) for market in MARKETS_OF[word]}


def instance_type(name: str) -> str:
    """The name of an instance type, as an admin writes it. For use as a pydantic validator."""
    if not re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", name):
        wrong(f"{shown(name)} is no instance type", 'write it like "g4dn.xlarge"')
    if close := _misspelt(name):
        wrong(f"EC2 has no instance type {shown(name)}", close)
    return name


_SIZE = re.compile(r"nano|micro|small|medium|large|\d*xlarge|metal(-\d+xl)?")
"""How EC2 has named every size up to now."""


def _misspelt(name: str) -> str:
    """Close matches of a name that cannot be right, or nothing.

    The bundled table is older than EC2: another family, or another size of a family, is believed.
    """
    family, _, size = name.partition(".")
    same = [known for known in data.instance_types() if known.startswith(f"{family}.")]
    if not same or name in same or _SIZE.fullmatch(size):
        return ""
    close = suggest(name, same, all_known=False)
    return close if close.startswith("did you mean") else ""


@cache
def _gpus() -> Mapping[str, str]:
    """EC2's names of GPU models, by the same in lower case."""
    return {kind.gpu.casefold(): kind.gpu for kind in data.instance_types().values() if kind.gpu}


DEFAULT_PROFILES: list[dict[str, Any]] = [
    {"display_name": "T4, 16 GB", "slug": "t4", "gpu": "T4", "default": True},
    {"display_name": "A10G, 24 GB", "slug": "a10g", "gpu": "A10G"},
    {"display_name": "L40S, 48 GB", "slug": "l40s", "gpu": "L40S"},
    {"display_name": "No GPU", "slug": "cpu", "vcpus": 4, "memory_gib": 16},
]

"""Every option of `c.EC2Spawner`, with its default and its help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from .. import data
from ..core.instances.retention_rules import AfterStop
from ..core.pool.rules import PoolRules
from ..core.profiles import profiles
from ..core.profiles.profiles import InstanceType
from ..core.sleep.rules import SleepRules
from ..wire import IdlePolicy
from .entries.after_stop import TERMINATE, AfterStopWords
from .entries.alarms import NO_ALARMS, AlarmsWords
from .entries.capacity_reservations import CapacityReservationsConfig
from .entries.clusters import ClustersConfig
from .entries.discounts import DiscountConfig
from .entries.home import HomeConfig
from .entries.idle import IdleConfig, IdleHook
from .entries.image import DEEP_LEARNING_AMI, AgentPackage, ImageWords
from .entries.limits import LimitsConfig, PayersConfig, TimeZone
from .entries.mounts import BucketConfig, Buckets, DataVolumeConfig, DataVolumes, Scratch
from .entries.profile import DEFAULT_PROFILES, Profile
from .entries.read_ahead import ENVIRONMENT, TORCH, ReadAheadPatterns
from .entries.runs import RunsConfig
from .entries.sleep import InterruptionConfig, SleepConfig, sleep_rules
from .entries.warm_pool import WHEN, UsdPerHour, WarmPoolConfig, pool_rules
from .store import POSTGRESQL_EXAMPLE, SQLITE_EXAMPLE, StoreURL
from .values import (
    MAX_DISK_GIB,
    Code,
    HttpUrl,
    OrFunction,
    PositiveDuration,
    QueueUrl,
    RoleArn,
    SecurityGroupId,
    SpawnerFunction,
    SubnetId,
    Texts,
    Words,
    as_written,
    listed,
    shown,
    wrong,
)

REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
"""What AWS's names of regions look like."""

NAMESPACE: Final = re.compile(r"(?!:)[A-Za-z0-9._/#:-]{1,255}")
"""Of CloudWatch, from the reference of PutMetricData, whose pattern allows no colon at first."""


MAX_GROUPS: Final = 5
"""Security groups of an instance's network interface: EC2's default quota."""


class Options(Words):
    """Everything an admin decides, as `c.EC2Spawner.<name>`; validated once, at hub start."""

    region: str = Field(
        default="",
        description="AWS region. If unset, AWS_REGION or AWS_DEFAULT_REGION of the hub's "
        "environment.",
        examples=["us-east-1"],
    )
    endpoint_url: HttpUrl = Field(
        default="",
        description="Address of the EC2 API, such as the embedded EC2's. Empty is AWS.",
        examples=["http://127.0.0.1:5000"],
    )
    subnets: Annotated[tuple[SubnetId, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Subnets for instances, one for each availability zone that may be used: more "
        "zones find spot more often. Instances in them must reach the hub. Required.",
        examples=[["subnet-0a1b2c3d", "subnet-4e5f6a7b"]],
    )
    security_groups: Annotated[tuple[SecurityGroupId, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Security groups of instances. They must allow the hub and its proxy to reach "
        "`port`. Empty is the VPC's default group.",
        examples=[["sg-0a1b2c3d"]],
    )
    image: ImageWords = Field(
        default=as_written(DEEP_LEARNING_AMI),
        description="AMI of instances: an id, the name of an SSM parameter that holds one, or a "
        "dict with a pattern of names and their owners. By default the newest Deep Learning AMI of "
        "the region. An image without ec2spawner installs it at boot, which takes minutes: for "
        "production, build one that contains it. Looked up once a day.",
        examples=["ami-0a1b2c3d"],
    )
    architecture: Literal["x86_64", "arm64"] = Field(
        default="x86_64", description="Architecture of the image."
    )
    agent_package: AgentPackage = Field(
        default="",
        description="What pip installs at boot, as root, on an image without ec2spawner: a "
        "version, the https address of a wheel, or the path of one on the image. An address that "
        "ends in `#sha256=` and the wheel's digest installs exactly that wheel. Dependencies are "
        "installed in the versions that the package was tested with. Empty is this version, with "
        "the notebook's dependencies, from pip's package index; nothing for a development version.",
        examples=[
            "ec2spawner[notebook] @ https://example.org/ec2spawner-0.1.0-py3-none-any.whl#sha256=..."
        ],
    )
    disk_gib: int = Field(
        default=100,
        ge=8,
        le=MAX_DISK_GIB,
        description="Size of an instance's root disk, in GiB, at least that of the image, which is "
        "75 GiB for AWS's Deep Learning AMIs. It is deleted with the instance.",
    )
    instance_profile: str = Field(
        default="",
        description="Name of the IAM instance profile of instances. Users have its permissions. "
        "Empty is none.",
        examples=["notebooks"],
    )
    interruption_queue: QueueUrl = Field(
        default="",
        description="URL of the SQS queue to which EventBridge sends spot interruption warnings. "
        "Agents see them without it. Empty is none.",
        examples=["https://sqs.us-east-1.amazonaws.com/123456789012/ec2spawner-interruptions"],
    )
    rehearsal_role: RoleArn = Field(
        default="",
        description="ARN of the IAM role with which AWS Fault Injection Service interrupts spot "
        "servers on purpose, for `ec2spawner interrupt`. Empty allows no rehearsals.",
        examples=["arn:aws:iam::123456789012:role/ec2spawner-rehearsal"],
    )
    key_name: str = Field(
        default="",
        description="Name of an EC2 key pair for ssh to instances. Its key logs in as the image's "
        "user, also while that user's home is mounted. Empty is none.",
        examples=["ops"],
    )
    hub_name: str = Field(
        default="jupyterhub",
        min_length=1,
        max_length=100,
        description="Name of this hub in the tags of everything it creates. Hubs that share an AWS "
        "account need different names.",
        examples=["jupyterhub-research"],
    )
    hub_api_url: HttpUrl = Field(
        default="",
        description="Address of the hub's API as instances reach it. Empty is the hub's own "
        "address.",
        examples=["http://10.0.0.5:8081/hub/api"],
    )
    store_url: StoreURL = Field(
        default="sqlite:///ec2spawner.sqlite",
        description="Database of leases and homes, as an SQLAlchemy URL: a separate SQLite file, "
        "or a separate PostgreSQL database (install ec2spawner[postgresql] for that). Never "
        "JupyterHub's.",
        examples=[SQLITE_EXAMPLE, POSTGRESQL_EXAMPLE],
    )
    hub_moved_from: str = Field(
        default="",
        description="Host and port at which instances reached this hub before it moved to another "
        "address. Without it, a moved store is refused, because it might be a copy.",
        examples=["10.0.0.5:8081"],
    )
    port: int = Field(
        default=8888,
        ge=1024,
        le=65535,
        description="TCP port of the notebook server on its instance's private address.",
    )
    boot_timeout: PositiveDuration = Field(
        default=as_written("10m"),
        description="An instance whose agent has not called the hub for this long after its launch "
        "is terminated, and the waiting user sees the reason with the end of its boot log. Time "
        "during which the hub was down does not count.",
    )
    ready_timeout: PositiveDuration = Field(
        default=as_written("10m"),
        description="A start fails if its notebook does not listen this long after the start got "
        "its instance, because the home or JupyterLab did not come up.",
    )
    agent_silent_after: PositiveDuration = Field(
        default=as_written("5m"),
        description="A server ends when its agent has been silent for this long on a running "
        "instance. Agents call at least once a minute; at least 90 s.",
    )
    hub_lost_after: PositiveDuration = Field(
        default=as_written("15m"),
        description="An idle instance powers itself off when the hub has not answered for this "
        "long. Longer than any restart of the hub; at least 60 s.",
    )
    stop_timeout: PositiveDuration = Field(
        default=as_written("1m"),
        description="Time for an instance to let open pages save their documents (5 s at most), to "
        "stop the notebook and to flush the home, before it is terminated. A server that sleeps "
        'has `sleep["save"]` in addition.',
    )
    profile_list: Annotated[
        Annotated[tuple[Profile, ...], BeforeValidator(listed)] | SpawnerFunction, OrFunction()
    ] = Field(
        default=as_written(DEFAULT_PROFILES),
        description="The profiles that users can pick, in this order. Or a sync or async function "
        "of the spawner that returns this list for its user.",
    )
    home: HomeConfig = Field(
        default=as_written({"kind": "ebs", "size_gib": 50}),
        description="Where users' files are stored.",
    )
    data_volumes: DataVolumes = Field(
        default=(),
        description="Data sets that every instance mounts read-only, each as a volume made from a "
        "snapshot and deleted with the instance.",
        examples=[[{"snapshot": "snap-0a1b2c3d", "path": "/data/imagenet"}]],
    )
    buckets: Buckets = Field(
        default=(),
        description="S3 buckets that every instance mounts, with the permissions of "
        "`instance_profile`.",
        examples=[[{"bucket": "my-data", "prefix": "images/", "path": "/data/my-data"}]],
    )
    scratch: Scratch = Field(
        default="/scratch",
        description="Mount point of the fast local disks of some instance types, the instance "
        "store. Their content is lost with the instance. False leaves them alone.",
    )
    idle: IdleConfig = Field(
        default=as_written({"server": "1h", "kernel": "2h", "user_may_extend": "4h"}),
        description="What counts as idle and what follows. A duration of 0 turns its rule off.",
        examples=[{"server": "1h", "kernel": "2h", "warn": "10m", "user_may_extend": "4h"}],
    )
    idle_by_group: dict[str, IdleConfig] = Field(
        default=as_written({}),
        description="Overrides of `idle` for members of JupyterHub groups. If a user is in several "
        "groups, later ones override earlier ones; a profile's own `idle` overrides them.",
        examples=[{"research": {"server": "3h"}, "class": {"server": "30m", "max_age": "8h"}}],
    )
    idle_hook: IdleHook | None = Field(
        default=None,
        description="A sync or async function of the spawner and its server's idle policy so far, "
        "a dict like `idle` with durations in seconds. It returns a dict of overrides. Called at "
        "each start, and for running servers when the hub starts. A failure is logged, and changes "
        "nothing.",
        examples=[Code("idle_of_role")],
    )
    sleep: SleepConfig = Field(
        default=as_written({"save": "5m", "keep": "30d", "max_disk_gib": 50}),
        description="How the variables of a server's kernels are saved in its home before its "
        "instance goes, and for how long they are kept. Whether an idle server sleeps is decided "
        'by `idle["then"]`.',
        examples=[{"save": "5m", "keep": "30d", "max_disk_gib": 50}],
    )
    interruption: InterruptionConfig = Field(
        default=as_written({"then": "resume"}),
        description="What follows when AWS reclaims the spot instance of a running server.",
        examples=[{"then": "resume-on-demand"}],
    )
    after_stop: AfterStopWords = Field(
        default=TERMINATE,
        description="What happens to a server's instance when the server has stopped: "
        '`"terminate"`; `{"linger": "10m"}` keeps it running for some minutes, so that a restart '
        'needs no boot; `{"stop": "7d"}` stops an on-demand instance and keeps its disk. Always '
        "for the same server of the same user.",
        examples=[{"linger": "10m"}],
    )
    discounts: Annotated[tuple[DiscountConfig, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Prices that are prepaid or agreed: Reserved Instances, Savings Plans.",
        examples=[
            [
                {
                    "instance_type": "g5.xlarge",
                    "usd_per_hour": 0.63,
                    "count": 4,
                    "until": "2027-03-01",
                }
            ]
        ],
    )
    capacity_reservations: CapacityReservationsConfig = Field(
        default=as_written({}),
        description="On-Demand Capacity Reservations of the account that servers run in. Empty is "
        "none.",
        examples=[{"ids": ["cr-0a1b2c3d4e5f60718"]}],
    )
    warm_pool: Annotated[tuple[WarmPoolConfig, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Instances that wait for servers, running or stopped, so that a start takes "
        "less time. They cost money while they wait. Empty is no pool.",
        examples=[[{"profile": "t4", "running": 2, "when": WHEN}]],
    )
    warm_pool_usd_per_hour: UsdPerHour = Field(
        default=None,
        description="What all instances of the warm pool may cost together, in USD/hour. Where it "
        "does not pay for all, the last entries get fewer. None is no cap.",
        examples=[5],
    )
    read_ahead: ReadAheadPatterns = Field(
        default=(ENVIRONMENT,),
        description="Files that instances of the warm pool read while they wait, in this order: "
        "absolute paths of files and folders, with `*`, `?` and `[...]`; `environment` is that of "
        "the notebook. The first read of a block of a disk made from an image takes long. Empty "
        "reads nothing.",
        examples=[[ENVIRONMENT, TORCH]],
    )
    clusters: ClustersConfig = Field(
        default=as_written({}),
        description="Clusters for notebooks: workers that users start beside their server, on "
        "instances of their own, and that end with it. Limits count each worker as a server. "
        "By default there are none.",
        examples=[{"max_workers": 8}],
    )
    runs: RunsConfig = Field(
        default=as_written({}),
        description="Notebooks and scripts that users have executed to completion, each on an "
        "instance of its own that ends with it. Limits count each as a server. By default there "
        "are none.",
        examples=[{"at_once": 20, "at_once_per_user": 10, "priorities": {"group:research": 10}}],
    )
    time_zone: TimeZone = Field(
        default="UTC",
        description="Where days and months of costs and limits begin, and of hours of `warm_pool` "
        "that name no other.",
        examples=["Europe/Berlin"],
    )
    payers: PayersConfig = Field(
        default=as_written({}),
        description="Groups and projects to which users may charge their servers. Each server has "
        "exactly one payer, chosen on the spawn page where its user has several.",
        examples=[{"group": ["research"], "project": {"nlp": {"users": ["ann"]}}}],
    )
    limits: LimitsConfig = Field(
        default=as_written({}),
        description="How much users, groups, projects and the hub may spend and use. A server that "
        "cannot afford its first hour does not start.",
        examples=[{"user": {"usd_per_month": 200, "servers": 2}, "hub": {"usd_per_month": 10000}}],
    )
    alarms: AlarmsWords = Field(
        default=NO_ALARMS,
        description="Where alarms are sent, such as of limits, idle GPU servers and spot "
        "interruptions: Apprise URLs (mail, Slack, webhooks and more) and SNS topics. A list of "
        "them, or a dict that also sets kinds and thresholds. Empty sends none.",
        examples=[["arn:aws:sns:us-east-1:123456789012:gpu-hub"]],
    )
    identity_certificates: Texts = Field(
        default=(),
        description="PEM files with certificates that sign instance identity documents, in "
        "addition to AWS's, which come with ec2spawner.",
        examples=[["/srv/jupyterhub/embedded-ec2.pem"]],
    )
    cloudwatch_namespace: str = Field(
        default="",
        description="Namespace in Amazon CloudWatch to which the hub publishes its figures once a "
        "minute. The hub's role needs a statement for that, see `configs/README.md`. Empty "
        "publishes nothing.",
        examples=["ec2spawner"],
    )
    contact: str = Field(
        default="an admin of this JupyterHub",
        min_length=1,
        max_length=200,
        description="Whom users should ask, as shown on the pages.",
        examples=["gpu-help@example.org"],
    )

    @field_validator("cloudwatch_namespace")
    @classmethod
    def _cloudwatch_namespace(cls, value: str) -> str:
        if value and (not NAMESPACE.fullmatch(value) or value.startswith("AWS/")):
            wrong(
                f"{shown(value)} is no namespace for metrics of your own: up to 255 letters, "
                "digits and . - _ / # :, not beginning with AWS/",
                'c.EC2Spawner.cloudwatch_namespace = "ec2spawner"',
            )
        return value

    @field_validator("region")
    @classmethod
    def _region(cls, value: str) -> str:
        if not value:
            wrong("no region is given", 'c.EC2Spawner.region = "us-east-1"')
        if not REGION.fullmatch(value):
            fix = f'"{value[:-1]}"' if re.fullmatch(r".*-\d[a-z]", value) else '"us-east-1"'
            wrong(f"{shown(value)} is no AWS region", f"c.EC2Spawner.region = {fix}")
        return value

    @field_validator("subnets")
    @classmethod
    def _some_subnet(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            wrong(
                "no subnet is given, so no instance could start",
                'c.EC2Spawner.subnets = ["subnet-..."], one for each zone you want to use',
            )
        return value

    @field_validator("clusters")
    @classmethod
    def _room_for_a_group(cls, value: ClustersConfig, info: ValidationInfo) -> ClustersConfig:
        groups = info.data.get("security_groups", ())
        if value.max_workers and len(groups) >= MAX_GROUPS:
            wrong(
                f"an instance takes {MAX_GROUPS} security groups, and each cluster has one of its "
                f"own beside the {len(groups)} of security_groups",
                f"name at most {MAX_GROUPS - 1} in c.EC2Spawner.security_groups",
            )
        return value

    @field_validator("agent_silent_after", "hub_lost_after")
    @classmethod
    def _longer_than_a_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        least = {"agent_silent_after": 90, "hub_lost_after": 60}[str(info.field_name)]
        if value < least:
            wrong(
                f"{value:g} s would end servers that are well: agents speak once a minute",
                f'c.EC2Spawner.{info.field_name} = "{least}s" or longer',
            )
        return value

    @field_validator("profile_list")
    @classmethod
    def _profiles(
        cls, value: tuple[Profile, ...] | SpawnerFunction
    ) -> tuple[Profile, ...] | SpawnerFunction:
        if not value:
            wrong(
                "is empty, so nobody could start anything",
                "add a profile, or leave profile_list out for the built-in ones",
            )
        return value

    @field_validator("discounts")
    @classmethod
    def _discounts_of_the_region(
        cls, value: tuple[DiscountConfig, ...], info: ValidationInfo
    ) -> tuple[DiscountConfig, ...]:
        region = info.data.get("region", "")
        for zone in (each.zone for each in value):
            if zone and not zone.startswith(region):
                wrong(f"{shown(zone)} is no zone of {region}", f'write one such as "{region}a"')
        return value

    @field_validator("identity_certificates")
    @classmethod
    def _certificates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            try:
                text = Path(path).read_text(encoding="ascii", errors="replace")
            except OSError as error:
                wrong(f"{shown(path)} cannot be read: {error.strerror}", "give the path of a PEM")
            if "-----BEGIN CERTIFICATE-----" not in text:
                wrong(f"{shown(path)} holds no certificate", "give the path of a PEM file")
        return value

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The list of profiles; empty where it is a function of each user, see
        `hub.spawn.server_options`."""
        return () if callable(self.profile_list) else self.profile_list

    def instance_types(self, profile: Profile) -> tuple[InstanceType, ...]:
        """The bundled instance types that a profile of these options means, best first."""
        return profiles.resolve(profile, data.instance_types(), self.architecture)

    def disk(self, profile: Profile) -> int:
        """Size of the own disk of the profile's instances, in GiB."""
        return profile.disk_gib or self.disk_gib

    def data_volumes_of(self, profile: Profile) -> tuple[DataVolumeConfig, ...]:
        """The hub's and the profile's own."""
        return (*self.data_volumes, *profile.data_volumes)

    def buckets_of(self, profile: Profile) -> tuple[BucketConfig, ...]:
        """The hub's and the profile's own."""
        return (*self.buckets, *profile.buckets)

    @property
    def pool_rules(self) -> PoolRules:
        """The warm pool as the provisioner follows it."""
        cap = self.warm_pool_usd_per_hour
        return pool_rules(self.warm_pool, self.profiles, self.time_zone, cap)

    @property
    def every_data_volume(self) -> tuple[DataVolumeConfig, ...]:
        """The hub's, and those of all profiles."""
        return (*self.data_volumes, *(v for each in self.profiles for v in each.data_volumes))

    @property
    def every_bucket(self) -> tuple[BucketConfig, ...]:
        """The hub's, and those of all profiles."""
        return (*self.buckets, *(b for each in self.profiles for b in each.buckets))

    def after_stop_of(self, profile: Profile) -> AfterStop:
        """The profile's own, or the hub's."""
        return (profile.after_stop or self.after_stop).rule()

    def sleep_rules_of(self, profile: Profile) -> SleepRules:
        """How sessions of the profile are saved, and what follows an interruption."""
        interruption = profile.interruption or self.interruption
        return sleep_rules(self.sleep.changed_by(profile.sleep), interruption, self.home.kind)

    def idle_policy(self, profile: Profile, chosen: float | None = None) -> IdlePolicy:
        """The profile's policy, with the idle limit that its user chose, in seconds."""
        return self.policy_of(self.idle.changed_by(profile.idle), profile, chosen)

    def policy_of(
        self, words: IdleConfig, profile: Profile, chosen: float | None = None
    ) -> IdlePolicy:
        """The policy of these words for a profile, which opens the limit to its user besides
        them. Nothing sleeps where nothing can be saved."""
        policy = words.policy()
        changes: dict[str, Any] = {"user_server_seconds": chosen}
        opened = profile.profile_options.idle
        if opened is not None:
            most, least = policy.user_server_max_seconds, policy.user_server_min_seconds
            changes["user_server_min_seconds"] = min(least, opened.min) if most else opened.min
            changes["user_server_max_seconds"] = max(most, opened.max)
        if not self.sleep_rules_of(profile).save_seconds:
            changes["then"] = "stop"
        return policy.model_copy(update=changes)

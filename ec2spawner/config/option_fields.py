"""Every option of `c.EC2Spawner`: its type, its default and its help."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from .entries.after_stop import TERMINATE, AfterStopWords
from .entries.alarms import NO_ALARMS, AlarmsWords
from .entries.capacity_reservations import CapacityReservationsConfig
from .entries.clusters import ClustersConfig
from .entries.discounts import DiscountConfig
from .entries.home import HomeConfig
from .entries.idle import IdleConfig, IdleHook
from .entries.image import DEEP_LEARNING_AMI, AgentPackage, ImageWords
from .entries.limits import LimitsConfig, PayersConfig, TimeZone
from .entries.mounts import Buckets, DataVolumes, Scratch
from .entries.profile import DEFAULT_PROFILES, Profile
from .entries.read_ahead import ENVIRONMENT, TORCH, ReadAheadPatterns
from .entries.runs import RunsConfig
from .entries.sleep import InterruptionConfig, SleepConfig
from .entries.warm_pool import WHEN, UsdPerHour, WarmPoolConfig
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
)


class OptionFields(Words):
    """The fields of `Options`, without the checks of their values that their types do not make."""

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
        "`port`. Empty is the VPC's default group, in which no server has a cluster.",
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
        "instance. Agents call at least once a minute; at least 90 s. Time during which no hub ran "
        "does not count, and a restart of the hub does not begin anew.",
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
        'has `sleep["save"]` in addition, and one that still flushes its home up to ten minutes.',
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
        "`security_groups` must be set, and admit no instances. By default there are none.",
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

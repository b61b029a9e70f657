"""The options of `c.EC2Spawner`: checks of their values, and what they mean for a profile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationInfo, field_validator

from .. import data
from ..core.instances.retention_rules import AfterStop
from ..core.pool.rules import PoolRules
from ..core.profiles import profiles
from ..core.profiles.profiles import InstanceType
from ..core.sleep.rules import SleepRules
from ..wire import IdlePolicy
from .entries.clusters import ClustersConfig
from .entries.discounts import DiscountConfig
from .entries.idle import IdleConfig
from .entries.mounts import BucketConfig, DataVolumeConfig
from .entries.profile import Profile
from .entries.sleep import sleep_rules
from .entries.warm_pool import pool_rules
from .option_fields import OptionFields
from .values import SpawnerFunction, shown, wrong

REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
"""What AWS's names of regions look like."""

NAMESPACE: Final = re.compile(r"(?!:)[A-Za-z0-9._/#:-]{1,255}")
"""Of CloudWatch, from the reference of PutMetricData, whose pattern allows no colon at first."""

MAX_GROUPS: Final = 5
"""Security groups of an instance's network interface: EC2's default quota."""


class Options(OptionFields):
    """Everything an admin decides, as `c.EC2Spawner.<name>`; validated once, at hub start."""

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
    def _groups_allow_clusters(cls, value: ClustersConfig, info: ValidationInfo) -> ClustersConfig:
        groups = info.data.get("security_groups")
        if groups is None or not value.max_workers:
            return value  # what is wrong with the groups is reported once, as theirs
        if not groups:
            wrong(
                "allows clusters in the VPC's default group, where instances of all users reach "
                "each other: engines have ports that authenticate nobody",
                'c.EC2Spawner.security_groups = ["sg-..."], which admits the hub and no instances',
            )
        if len(groups) >= MAX_GROUPS:
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
        volumes = self.volumes_of(profile)
        return profiles.resolve(profile, data.instance_types(), self.architecture, volumes)

    def volumes_of(self, profile: Profile) -> int:
        """Number of EBS volumes of a server of the profile, beside the disk of its instance."""
        return (self.home.kind == "ebs") + len(self.data_volumes_of(profile))

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

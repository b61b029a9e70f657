"""The words an admin may write, checked once, before anything costs money.

`Options` is the one source of truth: the spawner's traits, their help and the configuration
reference are generated from its fields. Durations are texts such as `"1h"`, `"20m"`, `"1h30m"`,
or numbers of seconds; validated, they are seconds.
"""

from .combinations import (
    GroupOverride,
    JupyterHubOptions,
    KnownPrices,
    bundled_prices,
    ineffective,
    priced,
)
from .entries.after_stop import AfterStopConfig
from .entries.alarms import AlarmsConfig
from .entries.capacity_reservations import CapacityReservationsConfig
from .entries.clusters import ClustersConfig
from .entries.discounts import DiscountConfig
from .entries.home import HomeBounds, HomeConfig, SnapshotSchedule
from .entries.idle import IdleConfig, IdleHook, UserMaySet
from .entries.image import ImageConfig
from .entries.limits import BoundsConfig, LimitsConfig, PayersConfig, ProjectConfig
from .entries.mounts import BucketConfig, DataVolumeConfig
from .entries.profile import DiskBounds, Profile, ProfileOptions
from .entries.runs import RunsConfig
from .entries.sleep import InterruptionConfig, SleepConfig
from .entries.warm_pool import WarmPoolConfig
from .options import Options
from .problem import ConfigError, Problem
from .root_disk import small_disks
from .validation import (
    Judged,
    change_options,
    judge_options,
    validate_options,
)
from .values import seconds
from .working_hours import WorkingHoursConfig

__all__ = [
    "AfterStopConfig",
    "AlarmsConfig",
    "BoundsConfig",
    "BucketConfig",
    "CapacityReservationsConfig",
    "ClustersConfig",
    "ConfigError",
    "DataVolumeConfig",
    "DiscountConfig",
    "DiskBounds",
    "GroupOverride",
    "HomeBounds",
    "HomeConfig",
    "IdleConfig",
    "IdleHook",
    "ImageConfig",
    "InterruptionConfig",
    "Judged",
    "JupyterHubOptions",
    "KnownPrices",
    "LimitsConfig",
    "Options",
    "PayersConfig",
    "Problem",
    "Profile",
    "ProfileOptions",
    "ProjectConfig",
    "RunsConfig",
    "SleepConfig",
    "SnapshotSchedule",
    "UserMaySet",
    "WarmPoolConfig",
    "WorkingHoursConfig",
    "bundled_prices",
    "change_options",
    "ineffective",
    "judge_options",
    "priced",
    "seconds",
    "small_disks",
    "validate_options",
]

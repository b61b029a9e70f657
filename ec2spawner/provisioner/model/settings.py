"""The provisioner's settings as plain values. Durations in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from ...core.alarms.alarm import AlarmRules
from ...core.homes.snapshot_schedule import Schedule
from ...core.limits.bounds import Limits
from ...core.offers.reserved_capacity import ReservationChoice
from ...core.pool.rules import PoolRules
from ...core.pricing.discounts import Discount
from ...core.runs.queue import QueueRules
from .cloud.image import ImageQuery


@dataclass(frozen=True, slots=True)
class HomeRules:
    """How homes of kind `ebs` are created, snapshotted and deleted."""

    volume_type: str = "gp3"
    encrypted: bool = True
    kms_key: str = ""
    may_move: bool = True
    """Users may move theirs to another zone."""
    schedule: Schedule | None = None
    """Of snapshots; None makes none."""
    delete_forever: bool = False
    """Delete the home with its user or named server."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The hub's options that the provisioner needs; durations in seconds."""

    hub: str
    """Value of the hub's tag: an account may hold several hubs."""
    region: str
    subnets: tuple[str, ...]
    boot_timeout: float = 600.0
    """An instance whose agent has not called by then is terminated."""
    agent_silent_after: float = 300.0
    """How long the agent of a server may be silent, on a running instance, before it is ended."""
    ready_timeout: float = 600.0
    """How long a start may hold an instance before it is ended: home or notebook do not come up."""
    stop_timeout: float = 60.0
    """Time for the agent to save, stop the notebook and unmount."""
    batch_window: float = 0.05
    """Starts that arrive within this window share one launch call, and so does each that follows
    within it. Karpenter's idle window is 35 ms; a little more is not a visible delay."""
    longest_batch: float = 1.0
    """For so long at most a launch call waits for further starts, as in Karpenter."""
    launch_timeout: float = 120.0
    """How long a launch call that EC2 throttles or does not answer is repeated, with its token.
    What it may have started nevertheless is found by the listing."""
    launch_pause: float = 1.0
    """Maximum pause before the first repetition; later pauses grow to 15 times as much."""
    replacements: int = 3
    """How many instances of one start are replaced before it fails."""
    busy_interval: float = 2.0
    """Between listings while something starts or stops."""
    quiet_interval: float = 30.0
    """Between listings otherwise."""
    missing_listings: int = 3
    """An instance is gone when this many complete listings in a row lack it."""
    listing_lag: float = 60.0
    """For so long after its launch a listing may lack an instance, also one that another listing
    has shown: EC2 promises no bound, and lags are seconds."""
    recovery_grace: float = 180.0
    """After a hub start: when stored leases that JupyterHub does not know are ended."""
    catalogue_interval: float = 86400.0
    """Between readings of which instance types the zones have, and what they are."""
    catalogue_retry: float = 300.0
    """The same, after one that failed."""
    keeps: frozenset[tuple[str, str]] | None = None
    """(profile, `linger` or `stop`) whose instances the configuration keeps; None if unknown,
    because the list of profiles is a function."""
    image: ImageQuery = field(default_factory=ImageQuery)
    """Which image instances boot."""
    architecture: str = "x86_64"
    """Of the image, as EC2 names it."""
    discounts: tuple[Discount, ...] = ()
    """What is paid for already; the account's Reserved Instances are read besides."""
    capacity_reservations: ReservationChoice = field(default_factory=ReservationChoice)
    """Which of the account's capacity reservations this hub uses."""
    want_types: tuple[str, ...] = ()
    """Instance types whose facts and prices are kept fresh from the start: those of all profiles
    that are known by then."""
    price_interval: float = 60.0
    """Seconds between two readings of spot prices. A limit learns of a price rise up to this much
    later. A reading takes one or two calls, and EC2's rate limit for them is 20 a second."""
    home: HomeRules = HomeRules()
    time_zone: tzinfo = UTC
    """Of calendar days and months in costs and limits."""
    spending_days: int = 0
    """Days before today whose spending is remembered, besides those of this month."""
    limits: Limits = field(default_factory=Limits)
    """Of users, payers and the hub."""
    pool: PoolRules = field(default_factory=PoolRules)
    """How many booted instances wait for servers of which profile."""
    has_clusters: bool = False
    """Users may have clusters: only such a hub needs the permissions for placement groups."""
    runs: QueueRules = field(default_factory=QueueRules)
    """How many runs have an instance at the same time, and who comes first."""
    reap_interval: float = 600.0
    """Between scans for disks and network interfaces that are left over."""
    alarms: AlarmRules = field(default_factory=AlarmRules)
    alarm_destinations: tuple[str, ...] = ()
    """Names of those that alarms are sent to; none raises no alarm."""
    template_interval: float = 86400.0
    """Between deletions of launch templates that are no longer used."""

"""What the provisioner needs of a cloud: one small Protocol, and the values it speaks.

`ec2spawner.aws` implements it with boto3; tests in virtual time bring their own. Nothing above
this line ever sees a boto3 dict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from ...core.offers.launch_errors import LaunchError
from ...core.offers.quotas import ListedQuota
from ...core.offers.reserved_capacity import CapacityReservation
from ...core.pricing.discounts import Discount
from ...core.pricing.price_history import PricePoint
from ...core.pricing.resource_prices import ResourcePrices
from ...core.profiles.profiles import InstanceType
from ...wire import Market


class InstanceState(StrEnum):
    """EC2's own names."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"


GONE = frozenset({InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED})
"""From these an instance never comes back."""

STOPPED = frozenset({InstanceState.STOPPING, InstanceState.STOPPED})

SPOT_TERMINATION = "Server.SpotInstanceTermination"
"""EC2's StateReason code of a spot instance that AWS has taken back."""

POWERED_OFF = "Client.InstanceInitiatedShutdown"
"""EC2's StateReason code where the machine ended by itself: the agent, the user-data, or whoever is
root there, wanted it so."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An EC2 instance as one listing showed it."""

    instance_id: str
    state: InstanceState
    instance_type: str
    zone: str
    market: Market
    launched_at: datetime
    """UTC."""
    image_id: str = ""
    private_address: str | None = None
    has_public_address: bool = False
    """Whether it has a public IPv4 address, of its subnet's or an Elastic IP; EC2 gives it one a
    moment after the launch, and takes back its own at a stop."""
    state_reason: str = ""
    """EC2's StateReason code, such as `Server.SpotInstanceTermination`."""
    state_message: str = ""
    """EC2's StateReason message, the cause where it ended the instance at once."""
    ended_at: datetime | None = None
    """When it was stopped or terminated, UTC; None where EC2 does not say it."""
    account_id: str = ""
    """The account that owns it (the reservation's OwnerId); empty where unknown."""
    tags: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Device name, such as `/dev/sdp` -> volume id, of what is attached."""
    deleted_with: tuple[str, ...] = ()
    """Ids of what EC2 deletes with it: the volumes and network interfaces of its launch."""
    reservation: str = ""
    """Id of the capacity reservation that it runs in; empty for none."""
    in_block: bool = False
    """Whether it was launched into a Capacity Block, at whose end EC2 terminates it."""
    security_groups: tuple[str, ...] = ()
    """Ids."""


@dataclass(frozen=True, slots=True)
class DataVolume:
    """A volume made from a snapshot with each instance, and deleted with it."""

    snapshot: str
    """`snap-...`"""
    path: str
    """Where the user finds it, read-only."""


DATA_DEVICES = tuple(f"/dev/sd{letter}" for letter in "ponmlkjihg")
"""Device names of a spec's data volumes, in its order. From EC2's recommended ones, from the end:
a home is attached under the first one that is free."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything that makes instances interchangeable: equal specs have one launch key."""

    instance_types: tuple[str, ...]
    """Acceptable types, best first."""
    subnets: tuple[str, ...]
    """Acceptable subnets, and so zones; a home bound to a zone leaves those of its zone."""
    image_id: str
    markets: tuple[Market, ...]
    """Markets to try, in order."""
    disk_gib: int
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    key_name: str = ""
    user_data: str = ""
    """Bash; the same for every instance of the spec, and no secret."""
    data_volumes: tuple[DataVolume, ...] = ()
    """At most `len(DATA_DEVICES)`."""
    max_usd_per_hour: float | None = None
    """No offer that costs more is asked for; None is no limit. It is never EC2's maximum price of
    a spot instance, which would only add interruptions."""
    placement_group: str = ""
    """Name of the placement group that its instances are launched into; empty for none."""


MAX_OFFERS = 300
"""Offers in one launch call: EC2's quota for launch specifications of a fleet."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One CreateFleet call. Stored before the call and replayed identically after a crash."""

    client_token: str
    market: Market
    count: int
    spec: LaunchSpec
    tags: Mapping[str, str]
    """For every instance and volume, in the creating call."""
    offers: tuple[tuple[str, str], ...] = ()
    """(instance type, subnet) to ask for, best first, one subnet to a zone: chosen when the call
    was stored, so that a replay asks for the same. At most `MAX_OFFERS`."""
    preferred: int = 0
    """So many of the first offers come before all others, whichever zone EC2 would pick itself:
    it has named their zones as having room."""
    reservation: str = ""
    """Id of the capacity reservation whose places it asks for, and nothing else; empty for the
    market's own capacity."""
    is_block: bool = False
    """Whether that reservation is a Capacity Block, which EC2 wants named as a market."""


@dataclass(frozen=True, slots=True)
class Launched:
    """An instance named in CreateFleet's answer; its address comes with the next listing."""

    instance_id: str
    instance_type: str
    zone: str
    """Empty where the answer does not name it."""
    market: Market


@dataclass(frozen=True, slots=True)
class FleetResponse:
    """Instances and errors: both are applied."""

    instances: tuple[Launched, ...]
    errors: tuple[LaunchError, ...]


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """Which image to boot; exactly one of `image_id`, `name` and `parameter` is set."""

    image_id: str = ""
    name: str = ""
    """A pattern with `*`; the newest match counts."""
    owners: tuple[str, ...] = ()
    """Accounts whose images match a name: ids, `self` or `amazon`."""
    parameter: str = ""
    """Name of an SSM parameter that holds an image's id."""
    architecture: str = "x86_64"


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI, as EC2 shows it."""

    image_id: str
    name: str = ""
    created_at: datetime | None = None
    """UTC."""
    architecture: str = ""
    root_device: str = ""
    driver: str = ""
    """Version of the NVIDIA driver, where the image says it; else empty."""
    root_gib: int = 0
    """Size of the snapshot of its root disk, in GiB: EC2 refuses a smaller disk. 0 is unknown."""


@dataclass(frozen=True, slots=True)
class Volume:
    """An EBS volume as a listing or a call showed it."""

    volume_id: str
    zone: str
    size_gib: int
    state: str
    """EC2's: creating, available, in-use, deleting, deleted, error."""
    attached_to: str | None
    """Instance id."""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    """UTC."""
    volume_type: str = "gp3"


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """How a volume is made: part of the request that its token stands for."""

    size_gib: int
    snapshot_id: str = ""
    """Empty is a blank volume."""
    volume_type: str = "gp3"
    encrypted: bool = True
    kms_key: str = ""
    """Empty is the account's default key for EBS."""


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """A copy of a volume, as EC2 shows it."""

    snapshot_id: str
    volume_id: str
    state: str
    """EC2's: pending, completed, error, recoverable, recovering."""
    percent: int
    started_at: datetime
    """UTC."""
    size_gib: int
    """Of the volume."""
    stored_gib: float | None = None
    """What has ever been written to the volume; None while unknown."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface."""

    interface_id: str
    state: str
    """EC2's: available, associated, attaching, in-use, detaching."""
    attached_to: str | None
    """Instance id."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group, as EC2 shows it."""

    group_id: str
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """A placement group, as EC2 shows it."""

    name: str
    """Unique in the account and region."""
    state: str = ""
    """EC2's: pending, available, deleting, deleted."""
    tags: Mapping[str, str] = field(default_factory=dict)


LISTING_PAGE = 50
"""Resources in a page of a listing: parsing a page of 100 instances takes 56 ms of CPU, of 1000
600 ms."""

MAX_FILTER_VALUES = 200
"""EC2's limit for the values of one filter."""


class CloudError(Exception):
    """A call to the cloud failed.

    `code` is EC2's error code, or the name of the transport's failure. `retryable` is True for
    throttles, timeouts and server faults: nothing is known to have happened or not happened.
    """

    def __init__(self, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable


class Cloud(Protocol):
    """Every method may raise `CloudError`; each has its own timeout inside."""

    async def launch(self, request: LaunchRequest) -> FleetResponse:
        """Ask for instances with one CreateFleet of type `instant`. Idempotent by client token."""

    async def list_instances(self, hub: str, among: Collection[str] = ()) -> Sequence[Instance]:
        """Every instance that carries this hub's tag, in any state, or those of them that have one
        of up to `MAX_FILTER_VALUES` ids: all pages or an error."""

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate; an id that does not exist is no error."""

    async def stop(self, instance_ids: Sequence[str]) -> None:
        """Stop on-demand instances: their disks stay. Stopped already is no error.

        Raises `CloudError("UnsupportedOperation", ...)` for a spot instance.
        """

    async def stop_on_power_off(self, instance_id: str) -> None:
        """From now on the instance stops and keeps its disk when it powers itself off. Launched
        instances terminate. It may be running or stopped; repeated it is no error."""

    async def start(self, instance_ids: Sequence[str]) -> None:
        """Start stopped instances; running already is no error.

        Raises `CloudError("InsufficientInstanceCapacity", ...)`, not retryable, where EC2 has no
        room, and `CloudError("IncorrectInstanceState", ...)` while one is still stopping.
        """

    async def tag(self, resource_ids: Sequence[str], tags: Mapping[str, str]) -> None:
        """Set tags, keeping others. Raises `CloudError`."""

    async def ran_until(
        self, instance_ids: Sequence[str], since: datetime, until: datetime
    ) -> Mapping[str, datetime]:
        """Instance id -> until when it ran, UTC, from metrics that outlive the listing.

        To five minutes, and at most `until`; without those of which nothing is known since `since`.
        """

    async def zones_of(self, subnets: Sequence[str]) -> Mapping[str, str]:
        """Subnet id -> availability zone."""

    async def spot_history(
        self, instance_types: Sequence[str], zones: Sequence[str], since: datetime
    ) -> Mapping[tuple[str, str], tuple[PricePoint, ...]]:
        """(instance type, zone) -> spot prices, oldest first, from the one in force at `since`.

        No `zones` are all of the region. What EC2 does not list is absent.
        """

    async def on_demand_prices(self, instance_types: Sequence[str]) -> Mapping[str, float]:
        """Instance type -> on-demand price in this region, USD/hour; unknown ones are absent."""

    async def resource_prices(self) -> ResourcePrices:
        """List prices of disks, snapshots and addresses in this region; unknown ones are None."""

    async def reservations(self) -> Sequence[Discount]:
        """The account's active Reserved Instances, as what they cost while they last."""

    async def capacity_reservations(self) -> Sequence[CapacityReservation]:
        """The account's active On-Demand Capacity Reservations that instances can run in."""

    async def quotas(self) -> Sequence[ListedQuota]:
        """EC2's quotas of the account and region, as Service Quotas lists them."""

    async def offerings(self, zones: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Instance type -> those of the zones that have it; a type that none has is absent."""

    async def describe_types(self, instance_types: Sequence[str]) -> Mapping[str, InstanceType]:
        """What EC2 says of instance types; those that do not exist are absent.

        Prices, saving and interruption band are None: EC2 does not say them here.
        """

    async def find_image(self, query: ImageQuery) -> Image:
        """The newest image that the query means.

        Raises `CloudError("InvalidAMIID.NotFound", ...)`, not retryable, where there is none.
        """

    async def delete_old_templates(self, hub: str, store_id: str, before: datetime) -> int:
        """Delete launch templates of this hub and store made before then and not used since
        by this process. How many."""

    async def create_volume(
        self, client_token: str, zone: str, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        """Idempotent by client token."""

    async def copy_volume(
        self, client_token: str, source_id: str, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        """A copy of a volume as it is now, in its zone; idempotent by client token.

        Raises `CloudError("ConcurrentCopyVolumeLimitExceeded", ...)` while an earlier copy of the
        same volume is under way.
        """

    async def volume(self, volume_id: str) -> Volume | None:
        """As it is now; None where there is none, or EC2 does not list it yet."""

    async def list_volumes(self, hub: str) -> Sequence[Volume]:
        """Every volume with the hub's tag, of any store: complete, or a `CloudError`."""

    async def modify_volume(self, volume_id: str, size_gib: int) -> None:
        """Grow; returns when the volume has the size.

        Raises `CloudError("VolumeModificationRateExceeded", ...)` when it was changed lately, and
        `CloudError("IncorrectModificationState", ...)` while an earlier change is under way.
        """

    async def create_snapshot(self, volume_id: str, tags: Mapping[str, str]) -> VolumeSnapshot:
        """Begin one; not idempotent, and never repeated inside: EC2 has no token for it."""

    async def list_snapshots(self, hub: str) -> Sequence[VolumeSnapshot]:
        """Every snapshot that carries this hub's tag: all pages or an error."""

    async def snapshot_sizes(self, snapshot_ids: Sequence[str]) -> Mapping[str, int]:
        """Snapshot id -> GiB of a volume that is made from it; unknown ones are absent."""

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete; one that does not exist is no error."""

    async def attach_volume(self, volume_id: str, instance_id: str) -> None:
        """Attach and return when EC2 says `in-use`; attached to this instance already is no error.

        Raises `CloudError("VolumeInUse", ...)` while another instance holds it.
        """

    async def detach_volume(self, volume_id: str, instance_id: str) -> None:
        """Detach; not attached is no error."""

    async def delete_volume(self, volume_id: str) -> None:
        """Delete; one that does not exist is no error, one that is attached is."""

    async def free_volumes(self, hub: str) -> Sequence[Volume]:
        """This hub's disks that came with an instance (their tags name a launch call) and are
        attached to none: no homes."""

    async def free_interfaces(self, hub: str) -> Sequence[Interface]:
        """This hub's network interfaces that are attached to nothing."""

    async def delete_interface(self, interface_id: str) -> None:
        """Delete; one that does not exist is no error, one that is attached is."""

    async def create_security_group(
        self, name: str, description: str, subnet_id: str, tags: Mapping[str, str]
    ) -> str:
        """Id of a group in the subnet's VPC whose members, and nobody else, reach each other on all
        TCP ports. Idempotent by name: EC2 has no client token for it.

        Raises `CloudError("InvalidGroup.Duplicate", ...)` where the name is that of a group without
        these tags.
        """

    async def default_security_group(self, subnet_id: str) -> str:
        """Id of the group that EC2 gives to an instance in this subnet whose launch names none."""

    async def set_security_groups(self, instance_id: str, groups: Sequence[str]) -> None:
        """Let the instance, running or stopped, have these groups in place of all it had."""

    async def list_security_groups(self, hub: str) -> Sequence[SecurityGroup]:
        """Every security group with the hub's tag, of any store: complete, or a `CloudError`."""

    async def delete_security_group(self, group_id: str) -> None:
        """Delete; one that does not exist is no error.

        Raises `CloudError("DependencyViolation", ...)` while a network interface has it.
        """

    async def create_placement_group(self, name: str, tags: Mapping[str, str]) -> None:
        """A placement group that puts its instances close together, in one zone. Idempotent by
        name: EC2 has no client token for it.

        Raises `CloudError("InvalidPlacementGroup.Duplicate", ...)` where the name is that of a
        group without these tags.
        """

    async def list_placement_groups(self, hub: str) -> Sequence[PlacementGroup]:
        """Every placement group with the hub's tag, of any store: complete, or a `CloudError`."""

    async def delete_placement_group(self, name: str) -> None:
        """Delete; one that does not exist is no error.

        Raises `CloudError("InvalidPlacementGroup.InUse", ...)` while an instance is in it.
        """

    async def console_output(self, instance_id: str) -> str:
        """The end of what the instance wrote to its console, the boot log first of all; empty
        where there is nothing yet. At most 64 KiB; the instance's own words, so hostile."""

"""What the provisioner needs of a cloud: one small Protocol, and the values it speaks.

`ec2spawner.aws` implements it with boto3; tests in virtual time bring their own. Nothing above
this line ever sees a boto3 dict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from ....core.instances.scheduled_events import ScheduledEvent
from ....core.offers.quotas import ListedQuota
from ....core.offers.reserved_capacity import CapacityReservation
from ....core.pricing.discounts import Discount
from ....core.pricing.price_history import PricePoint
from ....core.pricing.resource_prices import ResourcePrices
from ....core.profiles.profiles import InstanceType
from .image import Image, ImageQuery
from .instance import Instance
from .launch import FleetResponse, LaunchRequest
from .network import Interface, PlacementGroup, SecurityGroup
from .volume import Volume, VolumeSnapshot, VolumeSpec

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

    async def scheduled_events(self) -> Mapping[str, Sequence[ScheduledEvent]]:
        """Instance id -> what AWS has announced of it, also what is over, of all running instances
        of the account that have an event."""

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
        self, client_token: str, source: Volume, spec: VolumeSpec, tags: Mapping[str, str]
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

"""What the provisioner needs of a cloud: one small Protocol, and the values it speaks.

`ec2spawner.aws` implements it with boto3; tests in virtual time bring their own. Nothing above
this line ever sees a boto3 dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from ..wire import Market


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
    private_address: str | None = None
    state_reason: str = ""
    """EC2's StateReason code, such as `Server.SpotInstanceTermination`."""
    account_id: str = ""
    """The account that owns it (the reservation's OwnerId); empty where unknown."""
    tags: Mapping[str, str] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One CreateFleet call. Stored before the call and replayed identically after a crash."""

    client_token: str
    market: Market
    count: int
    spec: LaunchSpec
    tags: Mapping[str, str]
    """For every instance and volume, in the creating call."""


@dataclass(frozen=True, slots=True)
class LaunchError:
    """One entry of CreateFleet's `Errors`, or the error of the whole call."""

    code: str
    """EC2's code, such as `InsufficientInstanceCapacity`."""
    message: str
    instance_type: str = ""
    subnet: str = ""
    zone: str = ""


SOLD_OUT = frozenset(
    {
        "InsufficientCapacity",
        "InsufficientCapacityOnHost",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientVolumeCapacity",
        "InstanceLimitExceeded",
        "InvalidFleetConfiguration",  # of an offer: its zone does not have the type
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
"""EC2's codes that say: not this offer now. Some come with HTTP 500, and yet they are clear
answers: nothing was made. Where every offer has another code that is not retryable, the
configuration is wrong, and trying another market would only hide it."""


@dataclass(frozen=True, slots=True)
class Launched:
    """An instance named in CreateFleet's answer; its address comes with the next listing."""

    instance_id: str
    instance_type: str
    zone: str
    """Empty where the answer does not name it."""
    market: Market


@dataclass(frozen=True, slots=True)
class LaunchAnswer:
    """Instances and errors: both are applied."""

    instances: tuple[Launched, ...]
    errors: tuple[LaunchError, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    volume_id: str
    zone: str
    size_gib: int
    state: str
    """EC2's: creating, available, in-use, deleting, deleted, error."""
    attached_to: str | None
    """Instance id."""
    tags: Mapping[str, str] = field(default_factory=dict)


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

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """Ask for instances with one CreateFleet of type `instant`. Idempotent by client token."""

    async def list_instances(self, hub: str) -> Sequence[Instance]:
        """Every instance that carries this hub's tag, in any state: all pages or an error."""

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate; an id that does not exist is no error."""

    async def tag(self, resource_ids: Sequence[str], tags: Mapping[str, str]) -> None: ...

    async def zones_of(self, subnets: Sequence[str]) -> Mapping[str, str]:
        """Subnet id -> availability zone."""

    async def spot_prices(
        self, instance_types: Sequence[str], zones: Sequence[str]
    ) -> Mapping[tuple[str, str], float]:
        """(instance type, zone) -> spot price now, USD/hour; no `zones` are all of the region."""

    async def create_volume(
        self, client_token: str, zone: str, size_gib: int, tags: Mapping[str, str]
    ) -> Volume:
        """An encrypted gp3 volume. Idempotent by client token."""

    async def list_volumes(self, hub: str) -> Sequence[Volume]: ...

    async def attach_volume(self, volume_id: str, instance_id: str) -> None:
        """Attach and return when EC2 says `in-use`; attached to this instance already is no error.

        Raises `CloudError("VolumeInUse", ...)` while another instance holds it.
        """

    async def detach_volume(self, volume_id: str, instance_id: str) -> None:
        """Detach; not attached is no error."""

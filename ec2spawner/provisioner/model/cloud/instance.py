"""An instance as EC2 lists it, and what its states mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ....wire import Market


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

LEAVING = frozenset({InstanceState.STOPPING, InstanceState.SHUTTING_DOWN})
"""Its operating system shuts down, and what is attached to it is still mounted."""

STOPPED = frozenset({InstanceState.STOPPING, InstanceState.STOPPED})

SPOT_TERMINATION = "Server.SpotInstanceTermination"
"""EC2's StateReason code of a spot instance that AWS has reclaimed."""

SCHEDULED_STOP = "Server.ScheduledStop"
"""EC2's StateReason code of an instance that AWS has stopped as it had announced."""

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

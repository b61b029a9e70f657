"""One simulated instance: what the runtime and the metadata service know of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ...core.instances.gpu_drivers import Driver, KernelModules, unsupported
from ...data import instance_types
from .packet_filter import OPEN, Passage
from .scheduled_event import ScheduledEvent

IMAGE_DRIVER: Final = Driver(595, KernelModules.OPEN)
"""Of the image, as the Deep Learning AMIs had it in November 2026."""


@dataclass
class SimulatedInstance:
    """A running instance, from its boot to its stop or end."""

    instance_id: str
    instance_type: str
    zone: str
    region: str
    market: str
    address: str
    image_id: str
    account: str
    architecture: str
    pending_since: datetime
    user_data: bytes
    instance_profile: str = ""
    """Name of the IAM instance profile; empty without one."""
    starts: int = 1
    """How often it was started; a reboot is no start."""
    data_volumes: tuple[tuple[str, str], ...] = ()
    """Volume and snapshot id of what was made from snapshots at its launch."""
    interruption_at: datetime | None = None
    """Set with the spot notice: when EC2 reclaims the instance."""
    rebalance_at: datetime | None = None
    """When EC2 recommended to leave it: with the spot notice at the latest."""
    events: list[ScheduledEvent] = field(default_factory=list)
    """Scheduled events of the instance, the oldest first, also those that are over or withdrawn."""
    passage: Passage = OPEN
    """What passes between it and the hub since its last boot."""

    def change_host(self) -> None:
        """A start after a stop is on another host, whose events are none of this one's."""
        for event in self.events:
            if event.state == "active":
                event.state = "canceled"

    @property
    def simulated_gpu(self) -> str | None:
        """The GPUs that this type would have, as the JSON in `EC2SPAWNER_SIMULATED_GPU`; None too
        where the image's driver does not support them."""
        known = instance_types().get(self.instance_type)
        if known is None or not known.gpu:
            return None
        if unsupported(known.gpu, IMAGE_DRIVER, known.gpu_partition):
            return None
        return json.dumps(
            {
                "name": known.gpu,
                "count": max(known.gpu_count, 1),
                "memory_mib": known.gpu_memory_mib,
            }
        )

    @property
    def gpus_on_pci_bus(self) -> int:
        """How many GPUs the PCI bus shows; a share of one is one."""
        known = instance_types().get(self.instance_type)
        return max(known.gpu_count, 1) if known is not None and known.gpu else 0

    def identity_document(self) -> str:
        """The instance identity document, with AWS's keys in AWS's order."""
        return json.dumps(
            {
                "accountId": self.account,
                "architecture": self.architecture,
                "availabilityZone": self.zone,
                "billingProducts": None,
                "devpayProductCodes": None,
                "marketplaceProductCodes": None,
                "imageId": self.image_id,
                "instanceId": self.instance_id,
                "instanceType": self.instance_type,
                "kernelId": None,
                "pendingTime": aws_instant(self.pending_since),
                "privateIp": self.address,
                "ramdiskId": None,
                "region": self.region,
                "version": "2017-09-30",
            },
            indent=2,
        )


def aws_instant(instant: datetime) -> str:
    """UTC in whole seconds, as AWS writes it in metadata."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

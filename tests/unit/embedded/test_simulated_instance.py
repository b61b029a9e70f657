"""Which GPUs a simulated instance has: those that its image's driver supports."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ec2spawner.embedded.runtime.instance import SimulatedInstance


@pytest.mark.parametrize(
    ("instance_type", "on_bus", "usable"),
    [
        ("g4dn.xlarge", 1, True),
        ("g6.xlarge", 1, True),
        ("g6f.large", 1, False),  # a share of an L4, which needs NVIDIA's GRID driver
        ("p3dn.24xlarge", 8, False),
        ("m5.large", 0, False),
    ],
)
def test_a_gpu_without_a_fitting_driver_is_on_the_bus_only(
    instance_type: str, on_bus: int, usable: bool
) -> None:
    instance = SimulatedInstance(
        "i-1",
        instance_type,
        zone="us-east-1a",
        region="us-east-1",
        market="spot",
        address="127.1.2.3",
        image_id="ami-1",
        account="1",
        architecture="x86_64",
        pending_since=datetime(2026, 11, 1, tzinfo=UTC),
        user_data=b"",
    )
    assert instance.gpus_on_pci_bus == on_bus
    assert (instance.simulated_gpu is not None) is usable

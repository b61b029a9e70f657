"""DescribeInstanceTypes' words -> ours."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.aws.compute.instance_types import instance_type
from ec2spawner.core.profiles.profiles import InstanceType


def described(**changes: Any) -> dict[str, Any]:
    """A g4dn.xlarge as EC2 describes it, without fields that are not read."""
    return {
        "InstanceType": "g4dn.xlarge",
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 16384},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "InstanceStorageInfo": {"TotalSizeInGB": 125},
        "GpuInfo": {"Gpus": [gpu()]},
        "EbsInfo": {"MaximumEbsAttachments": 25},
        **changes,
    }


def gpu(**changes: Any) -> dict[str, Any]:
    return {
        "Name": "T4",
        "Manufacturer": "NVIDIA",
        "Count": 1,
        "GpuPartitionSize": 1.0,
        "MemoryInfo": {"SizeInMiB": 16384},
        **changes,
    }


def test_a_whole_gpu() -> None:
    assert instance_type(described()) == InstanceType(
        name="g4dn.xlarge",
        vcpus=4,
        memory_mib=16384,
        gpu="T4",
        gpu_count=1,
        gpu_memory_mib=16384,
        gpu_partition=1.0,
        architecture="x86_64",
        local_disk_gb=125,
        on_demand_usd_per_hour=None,
        spot_saving_percent=None,
        interruption_band=None,
        max_volumes=25,
    )


def test_a_fractional_gpu_is_not_counted_as_whole() -> None:
    """EC2 counts none, and says how much of one it is."""
    eighth = gpu(Name="L4", Count=0, GpuPartitionSize=0.125, MemoryInfo={"SizeInMiB": 2861})
    kind = instance_type(described(GpuInfo={"Gpus": [eighth]}))
    assert (kind.gpu, kind.gpu_count, kind.gpu_partition) == ("L4", 0, 0.125)
    assert kind.gpu_memory_mib == 2861


def test_without_partition_data_gpus_are_whole() -> None:
    old = gpu()
    del old["GpuPartitionSize"]
    assert instance_type(described(GpuInfo={"Gpus": [old]})).gpu_partition == 1.0


def test_no_gpu_and_no_disk() -> None:
    plain = described()
    del plain["GpuInfo"], plain["InstanceStorageInfo"]
    kind = instance_type(plain)
    assert (kind.gpu, kind.gpu_count, kind.gpu_memory_mib, kind.gpu_partition) == ("", 0, 0, 0.0)
    assert kind.local_disk_gb == 0


@pytest.mark.parametrize(
    ("supported", "architecture"),
    [(["arm64"], "arm64"), (["i386", "x86_64"], "x86_64"), (["x86_64_mac"], "x86_64_mac")],
)
def test_the_architecture_that_images_have(supported: list[str], architecture: str) -> None:
    kind = instance_type(described(ProcessorInfo={"SupportedArchitectures": supported}))
    assert kind.architecture == architecture


def test_a_limit_of_volumes_that_ec2_does_not_say_is_unknown() -> None:
    """Older endpoints lack it."""
    assert instance_type(described(EbsInfo={})).max_volumes is None

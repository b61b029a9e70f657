"""Whether a whole process could move: each condition by itself, and all reasons at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.sleep.whole_process import GIB, Gpu, Host, Process, judge

T4 = Gpu("Tesla T4", 16 * GIB, used_bytes=4 * GIB)
HOST = Host((T4,), "570.86.15", "ami-1", frozenset({"avx2", "avx512f"}))
PROCESS = Process(
    resident_bytes=6 * GIB,
    free_memory_bytes=8 * GIB,
    free_disk_bytes=100 * GIB,
    disk_bytes_per_second=125 * 2**20,
    uses_unified_memory=False,
    uses_mps=False,
    criu_works=True,
    has_cuda_checkpoint=True,
)


def codes(process: Process = PROCESS, source: Host = HOST, target: Host = HOST) -> list[str]:
    return [each.code for each in judge(process, source, target).obstacles]


def test_the_same_instance_type_can_have_it() -> None:
    verdict = judge(PROCESS, HOST, HOST)
    assert verdict.can_work
    assert verdict.size_bytes == 10 * GIB


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"free_memory_bytes": 4 * GIB - 1}, "host-memory"),
        ({"free_disk_bytes": 11 * GIB}, "disk"),
        ({"disk_bytes_per_second": 102 * 2**20}, "disk-speed"),
        ({"disk_bytes_per_second": None}, "disk-speed"),
        ({"uses_unified_memory": True}, "unified-memory"),
        ({"uses_unified_memory": None}, "unified-memory"),
        ({"uses_mps": True}, "mps"),
        ({"criu_works": False}, "criu"),
        ({"criu_works": None}, "criu"),
        ({"has_cuda_checkpoint": False}, "cuda-checkpoint"),
    ],
)
def test_each_condition_of_the_process(changes: dict[str, Any], code: str) -> None:
    assert codes(replace(PROCESS, **changes)) == [code]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"gpus": ()}, "gpu"),
        ({"gpus": (T4, T4)}, "gpu"),
        ({"gpus": (replace(T4, model="A10G"),)}, "gpu"),
        ({"gpus": (replace(T4, memory_bytes=15 * GIB),)}, "gpu"),
        ({"driver": "575.10"}, "driver-differs"),
        ({"image_id": "ami-2"}, "image"),
        ({"cpu_flags": frozenset({"avx2"})}, "cpu"),
    ],
)
def test_each_condition_of_the_target(changes: dict[str, Any], code: str) -> None:
    assert codes(target=replace(HOST, **changes)) == [code]


def test_conditions_of_both() -> None:
    old = replace(HOST, driver="565.57.01")
    assert codes(source=old, target=old) == ["driver"]
    unknown = replace(HOST, driver="")
    assert codes(source=unknown, target=unknown) == ["driver"]
    sliced = replace(HOST, gpus=(replace(T4, mig=True),))
    assert codes(source=sliced, target=sliced) == ["mig"]


def test_without_a_gpu_only_the_process_counts() -> None:
    plain = replace(HOST, gpus=(), driver="")
    process = replace(PROCESS, uses_unified_memory=None, uses_mps=None)
    assert codes(process, plain, plain) == []
    assert codes(process, plain, HOST) == ["gpu"]


def test_a_smaller_host_than_its_gpu() -> None:
    """g5.xlarge: 24 GiB of GPU memory, 16 GiB of host memory."""
    a10g = replace(HOST, gpus=(Gpu("A10G", 24 * GIB, used_bytes=20 * GIB),))
    process = replace(PROCESS, resident_bytes=3 * GIB, free_memory_bytes=11 * GIB)
    assert codes(process, a10g, a10g) == ["host-memory", "disk-speed"]


sizes = st.integers(0, 2**42)


@given(sizes, sizes, sizes, st.none() | st.floats(0, 1e12))
def test_it_can_work_only_where_there_is_room(
    resident: int, memory: int, disk: int, speed: float | None
) -> None:
    process = replace(
        PROCESS,
        resident_bytes=resident,
        free_memory_bytes=memory,
        free_disk_bytes=disk,
        disk_bytes_per_second=speed,
    )
    verdict = judge(process, HOST, HOST)
    if verdict.can_work:
        assert memory >= T4.used_bytes
        assert disk >= verdict.size_bytes
        assert speed is not None
        assert speed * 100 >= verdict.size_bytes
    else:
        assert all(each.reason for each in verdict.obstacles)

"""The use of simulated GPUs: from the CPU, or as a program asks for it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from ec2spawner.telemetry import find_gpus
from ec2spawner.telemetry.simulated_gpus import JOB_FILE


def test_a_simulated_gpu_follows_the_users_cpu() -> None:
    gpus = find_gpus(json.dumps({"name": "T4", "count": 2, "memory_mib": 15360}))
    assert gpus.kind == "simulated"
    at_rest = gpus.sample(5.0)
    assert [gpu.use_percent for gpu in at_rest] == [0.0, 0.0]
    for _ in range(10):
        first, second = gpus.sample(100.0)
    assert first.use_percent > 90
    assert first.power_w == first.power_limit_w
    assert first.slowed_by == ["power"]
    assert first.clock_mhz < first.clock_max_mhz
    assert [user.pid for user in gpus.processes([(5, 90.0), (6, 2.0), (7, 20.0)])] == [5]
    assert second.use_percent == 0
    assert first.memory_used_mib < first.memory_total_mib == 15360
    for _ in range(10):
        first, _ = gpus.sample(0.0)
    assert first.use_percent == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "T4"}', '{"name": "x", "count": -1}'])
def test_a_malformed_simulation_simulates_nothing(text: str) -> None:
    assert find_gpus(text).kind == "none"


def test_a_job_uses_the_simulated_gpu_without_any_cpu(tmp_path: Path) -> None:
    gpus = find_gpus(json.dumps({"name": "T4", "count": 2, "memory_mib": 15360}), tmp_path)

    def use() -> list[float | None]:
        for _ in range(10):
            samples = gpus.sample(0.0)
        return [gpu.use_percent for gpu in samples]

    file = tmp_path / JOB_FILE
    file.write_text(f"{os.getpid()} 90")
    assert use() == [0, 0], "no program has locked it"
    with file.open() as job:
        fcntl.flock(job, fcntl.LOCK_EX)
        assert use() == [pytest.approx(90, abs=0.1), 0]
        assert [(user.pid, user.gpu) for user in gpus.processes([(5, 2.0)])] == [(os.getpid(), 0)]
    assert use() == [0, 0], "it has ended"
    assert gpus.processes([(5, 2.0)]) == []


@pytest.mark.parametrize("text", ["", "90", "x 90", "-5 90", "0 90", "{pid} nan", "{pid} 90 more"])
def test_a_malformed_job_uses_no_simulated_gpu(tmp_path: Path, text: str) -> None:
    gpus = find_gpus(json.dumps({"name": "T4", "count": 1, "memory_mib": 15360}), tmp_path)
    file = tmp_path / JOB_FILE
    file.write_text(text.replace("{pid}", str(os.getpid())))
    with file.open() as job:
        fcntl.flock(job, fcntl.LOCK_EX)
        assert [gpu.use_percent for gpu in gpus.sample(0.0)] == [0]

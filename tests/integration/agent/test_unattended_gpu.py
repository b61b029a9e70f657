"""What heartbeats say of a busy GPU, from real processes: whether a kernel uses it or a program."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from ec2spawner.agent.lease_status import OBSERVATION_LIMIT, LeaseStatus
from ec2spawner.telemetry import Processes, Sampler
from ec2spawner.telemetry.gpu_source import GpuProcess, Kind
from ec2spawner.wire import GpuSample, Heartbeat, IdlePolicy, KernelState, Observation, Sentence
from tests.unit.agent.lease_grant import lease_grant


@dataclass
class OneBusyGpu:
    """A driver that reports one busy GPU and the process that uses it."""

    user: int = 0
    samples: int = 0
    kind: Kind = "nvml"
    error: Sentence | None = None

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        self.samples += 1
        return [GpuSample(index=0, name="T4", use_percent=99)]

    def processes(self, busy: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        return [GpuProcess(self.user, 0, 1024.0, 99.0)]

    def close(self) -> None:
        pass


@contextmanager
def running(command: str) -> Iterator[tuple[int, int]]:
    """A shell and what it starts: their process ids."""
    shell = subprocess.Popen(["bash", "-c", f"{command} & echo $!; wait"], stdout=subprocess.PIPE)
    assert shell.stdout is not None
    child = int(shell.stdout.readline())
    try:
        yield shell.pid, child
    finally:
        os.kill(child, signal.SIGKILL)
        shell.communicate(timeout=10)


class Instance:
    """A lease whose processes are this process's children."""

    def __init__(self) -> None:
        self.gpu = OneBusyGpu()
        self.elapsed = 0.0
        self.sampler = Sampler(self.gpu, Processes(os.getpid()), interval=0.05)
        self.status = LeaseStatus(
            lease_grant(IdlePolicy()), "g4dn.xlarge", self.sampler, monotonic=lambda: self.elapsed
        )

    def see(self, *kernels: int | None) -> None:
        """The notebook extension reports kernels with these process ids."""
        now = datetime.now(UTC)
        states = [KernelState(id=f"{pid}", pid=pid, last_activity=now) for pid in kernels]
        self.status.observe(Observation(at=now, kernels=states))

    def heartbeat(self) -> Heartbeat:
        """From a sample that began after this call."""
        begin, deadline = self.gpu.samples, time.monotonic() + 60
        while self.gpu.samples < begin + 3:  # the second is complete when the third begins
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self.status.heartbeat(0)


@pytest.fixture
def instance() -> Iterator[Instance]:
    found = Instance()
    found.sampler.start()
    yield found
    found.sampler.stop(timeout=10)


def test_a_training_run_of_a_kernel_is_attended_and_a_program_is_not(instance: Instance) -> None:
    with running("sleep 600") as (kernel, worker), running("sleep 600") as (_, planted):
        instance.see(kernel)
        for user, expected in ((kernel, False), (worker, False), (planted, True)):
            instance.gpu.user = user
            heartbeat = instance.heartbeat()
            assert heartbeat.gpu_unattended is expected
            assert heartbeat.telemetry is not None
            assert not heartbeat.telemetry.workers, "names of programs stay on the instance"


def test_nothing_is_claimed_of_what_the_agent_does_not_know(instance: Instance) -> None:
    with running("sleep 600") as (kernel, planted):
        instance.gpu.user = planted
        assert instance.heartbeat().gpu_unattended is None, "no kernels are known yet"
        instance.see(None)
        assert instance.heartbeat().gpu_unattended is None, "a kernel that runs elsewhere"
        instance.see()
        assert instance.heartbeat().gpu_unattended is True
        instance.gpu.user = 0
        assert instance.heartbeat().gpu_unattended is None, "a process of another namespace"
        instance.gpu.user = kernel
        instance.elapsed += OBSERVATION_LIMIT.total_seconds() + 1
        assert instance.heartbeat().gpu_unattended is None, "the extension is silent"

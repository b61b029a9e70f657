"""Simulated GPUs for the embedded EC2, marked as simulated in their source."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from pydantic import BaseModel, Field

from ..wire import GpuSample, Sentence
from .gpu_source import GpuProcess, Kind

CLOCK_MAX_MHZ = 1590.0
CLOCK_AT_REST_MHZ = 300.0
MEMORY_CLOCK_MHZ = 5000.0

POWER_LIMITS_W = {"T4": 70, "T4g": 70, "L4": 72, "A10G": 300, "V100": 300, "L40S": 350}
POWER_LIMITS_W |= {"A100": 400, "H100": 700, "H200": 700, "B200": 1000, "B300": 1100}
"""Approximate limits of real GPUs, by EC2's names; any other has this:"""
USUAL_POWER_LIMIT_W = 250

REST_SHARE = 0.14
WORK_SHARE = 0.88
"""Shares of the power limit: at rest, and added by full use. Together they exceed the limit
slightly, which then lowers the clocks, as on real GPUs."""

AT_REST_PERCENT = 15.0
"""CPU use of one core that leaves the GPU idle: a notebook server with an open tab."""

MAX_PERCENT = 98.0

JOB_FILE: Final = ".simulated-gpu"
"""In the user's home. The program that has locked it (`flock`) uses the first GPU, as its content
says: the program's process id and the percentage, such as `1234 90`. The lock ends with it."""

MAX_JOB_BYTES = 32


class SimulatedGpu(BaseModel):
    """The GPUs to simulate, from `EC2SPAWNER_SIMULATED_GPU`."""

    name: str = Field(max_length=200)
    count: int = Field(ge=0, le=64)
    memory_mib: float = Field(gt=0, le=2**30, allow_inf_nan=False)


class Job(NamedTuple):
    """A program that uses a GPU whatever share of the CPU it gets, as on a real one."""

    pid: int
    percent: float


class SimulatedGpus:
    """GPUs whose use follows the CPU use of the user's processes: one GPU per busy core.

    A program gets less of a busy machine's CPU than it asks for, which a GPU does not notice: one
    that must use it, whatever else runs, says so in `JOB_FILE` in `home`.
    """

    kind: Kind = "simulated"
    error: Sentence | None = None

    def __init__(self, gpu: SimulatedGpu, home: Path | None = None) -> None:
        self.gpu = gpu
        self._home = home
        self._job: Job | None = None
        self._use = [0.0] * gpu.count

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """Use derived from the user's CPU use: 100 % of a core is one busy GPU."""
        self._job = job_of(self._home) if self._home is not None else None
        targets = [_target(user_cpu_percent - 100.0 * index) for index in range(self.gpu.count)]
        if self._job is not None and targets:
            targets[0] = max(targets[0], self._job.percent)
        return [self._one(index, target) for index, target in enumerate(targets)]

    def processes(self, at_work: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """Assign the job to the first GPU, then the busiest process to the first busy one, etc."""
        users = [self._job.pid] if self._job is not None else []
        users += [
            pid
            for pid, cpu_percent in sorted(at_work, key=lambda each: -each[1])
            if cpu_percent > AT_REST_PERCENT
        ]
        busy = [index for index, use in enumerate(self._use) if use > 0]
        return [
            GpuProcess(pid, index, self._memory_mib(index), round(self._use[index], 1))
            for pid, index in zip(users, busy, strict=False)
        ]

    def close(self) -> None:
        """Nothing to release."""

    def _memory_mib(self, index: int) -> float:
        return round(self.gpu.memory_mib * (0.03 + 0.006 * self._use[index]))

    def _one(self, index: int, target: float) -> GpuSample:
        # Half the difference at each sample, so that the shown bar moves smoothly.
        use = (self._use[index] + target) / 2
        self._use[index] = use = 0.0 if use < 2 else use
        limit = float(POWER_LIMITS_W.get(self.gpu.name, USUAL_POWER_LIMIT_W))
        power = limit * (REST_SHARE + WORK_SHARE * use / 100)
        is_held = power >= limit
        clock = CLOCK_AT_REST_MHZ if not use else CLOCK_MAX_MHZ * (0.9 if is_held else 1.0)
        return GpuSample(
            index=index,
            name=self.gpu.name,
            uuid=f"simulated-{index}",
            use_percent=round(use, 1),
            memory_used_mib=self._memory_mib(index),
            memory_total_mib=self.gpu.memory_mib,
            temperature_c=round(32 + 0.4 * use),
            power_w=round(min(power, limit)),
            power_limit_w=limit,
            clock_mhz=round(clock),
            clock_max_mhz=CLOCK_MAX_MHZ,
            memory_clock_mhz=MEMORY_CLOCK_MHZ,
            slowed_by=["power"] if is_held else [],
            ecc_corrected=0,
            ecc_uncorrected=0,
        )


def job_of(home: Path) -> Job | None:
    """The job in this home; None without one, or if what it says is malformed."""
    try:
        # Neither a link nor a pipe that blocks: the file is its user's.
        descriptor = os.open(home / JOB_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        try:
            if not _is_locked(file):
                return None  # its program has ended
            pid, percent = file.read(MAX_JOB_BYTES).split()
            job = Job(int(pid), min(max(0.0, float(percent)), MAX_PERCENT))
        except (OSError, ValueError):
            return None
    return job if Path("/proc", str(job.pid)).exists() else None


def _is_locked(file: IO[bytes]) -> bool:
    """Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _target(core_percent: float) -> float:
    """The use of a GPU, in percent, that the use of one core stands for."""
    above = max(core_percent - AT_REST_PERCENT, 0.0)
    return min(above * 100.0 / (100.0 - AT_REST_PERCENT), MAX_PERCENT)

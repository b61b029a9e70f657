"""Simulated GPUs for the embedded EC2, marked as simulated in their source."""

from __future__ import annotations

from collections.abc import Sequence

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


class SimulatedGpu(BaseModel):
    """The GPUs to simulate, from `EC2SPAWNER_SIMULATED_GPU`."""

    name: str = Field(max_length=200)
    count: int = Field(ge=0, le=64)
    memory_mib: float = Field(gt=0, le=2**30, allow_inf_nan=False)


class SimulatedGpus:
    """GPUs whose use follows the CPU use of the user's processes: one GPU per busy core."""

    kind: Kind = "simulated"
    error: Sentence | None = None

    AT_REST_PERCENT = 15.0
    """CPU use of one core that leaves the GPU idle: a notebook server with an open tab."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self._use = [0.0] * gpu.count

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """Use derived from the user's CPU use: 100 % of a core is one busy GPU."""
        return [
            self._one(index, user_cpu_percent - 100.0 * index) for index in range(self.gpu.count)
        ]

    def processes(self, at_work: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """Assign the busiest process to the first busy GPU, the next one to the second, etc."""
        users = sorted(
            (each for each in at_work if each[1] > self.AT_REST_PERCENT),
            key=lambda each: -each[1],
        )
        busy = [index for index, use in enumerate(self._use) if use > 0]
        return [
            GpuProcess(pid, index, self._memory_mib(index), round(self._use[index], 1))
            for (pid, _), index in zip(users, busy, strict=False)
        ]

    def close(self) -> None:
        """Nothing to release."""

    def _memory_mib(self, index: int) -> float:
        return round(self.gpu.memory_mib * (0.03 + 0.006 * self._use[index]))

    def _one(self, index: int, core_percent: float) -> GpuSample:
        above = max(core_percent - self.AT_REST_PERCENT, 0.0)
        target = min(above * 100.0 / (100.0 - self.AT_REST_PERCENT), 98.0)
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

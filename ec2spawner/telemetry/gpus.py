"""Where GPU figures come from: NVML, a simulation that says so, or nowhere."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, ValidationError

from ..wire import GpuSample

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
"""How often a machine without a working NVIDIA driver is asked again: a driver may load late."""


Kind = Literal["nvml", "simulated", "none"]


class GpuSource(Protocol):
    """One reader of GPUs. `sample` never raises: what cannot be read is None."""

    kind: Kind

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """All GPUs now. `user_cpu_percent`: the user's processes, in percent of one core."""

    def close(self) -> None: ...


def find_gpus(simulated: str | None = None) -> GpuSource:
    """The source for this machine; `simulated` is the JSON of `EC2SPAWNER_SIMULATED_GPU`."""
    if simulated:
        try:
            return SimulatedGpus(SimulatedGpu.model_validate_json(simulated))
        except ValidationError as error:
            log.error("EC2SPAWNER_SIMULATED_GPU is not understood: %s", error)
    return NvmlGpus()


class SimulatedGpu(BaseModel):
    name: str = Field(max_length=200)
    count: int = Field(ge=0, le=64)
    memory_mib: float = Field(gt=0)


class SimulatedGpus:
    """GPUs that work as hard as the user's processes use the CPU: the first one core, and so on."""

    kind: Kind = "simulated"

    AT_REST_PERCENT = 15.0
    """CPU use of one core that leaves the GPU idle: a notebook server with an open tab."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self._use = [0.0] * gpu.count

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        return [self._one(index, user_cpu_percent - 100.0 * index) for index in self._indices()]

    def close(self) -> None:
        pass

    def _indices(self) -> range:
        return range(self.gpu.count)

    def _one(self, index: int, core_percent: float) -> GpuSample:
        above = max(core_percent - self.AT_REST_PERCENT, 0.0)
        target = min(above * 100.0 / (100.0 - self.AT_REST_PERCENT), 98.0)
        # Half the way at each sample: a bar that glides, and is at rest two samples after the end.
        use = (self._use[index] + target) / 2
        self._use[index] = use = 0.0 if use < 2 else use
        return GpuSample(
            index=index,
            name=self.gpu.name,
            use_percent=round(use, 1),
            memory_used_mib=round(self.gpu.memory_mib * (0.03 + 0.006 * use)),
            memory_total_mib=self.gpu.memory_mib,
            temperature_c=round(32 + 0.4 * use),
            power_w=round(25 + 1.6 * use),
        )


class NvmlGpus:
    """NVML through `nvidia-ml-py`; without a driver or a GPU none, and the question again later."""

    kind: Kind = "none"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nvml: Any = None
        self._handles: list[tuple[int, str, Any]] = []
        self._ask_again_at = clock()
        self._said = ""

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        if self._nvml is None and self._clock() >= self._ask_again_at:
            self._ask_again_at = self._clock() + RETRY_SECONDS
            self._open()
        return [self._one(index, name, handle) for index, name, handle in self._handles]

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml, self._handles, self.kind = None, [], "none"

    def _open(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:
            self._say(f"no NVIDIA GPU to be read: {error}")
            return
        self._nvml = pynvml
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                self._handles.append((index, _text(pynvml.nvmlDeviceGetName(handle)), handle))
        except Exception as error:
            self._say(f"NVML lists its GPUs only in part: {error}")
        self.kind = "nvml" if self._handles else "none"
        if not self._handles:
            self.close()

    def _one(self, index: int, name: str, handle: Any) -> GpuSample:
        nvml = self._nvml
        memory = self._read(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        use = self._read(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        temperature = self._read(
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        )
        milliwatts = self._read(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return GpuSample(
            index=index,
            name=name,
            use_percent=None if use is None else min(max(use.gpu, 0), 100),
            memory_used_mib=None if memory is None else memory.used / 2**20,
            memory_total_mib=None if memory is None else memory.total / 2**20,
            temperature_c=temperature,
            power_w=None if milliwatts is None else milliwatts / 1000,
        )

    def _read(self, read: Callable[[], Any]) -> Any:
        """One figure, or None: many GPUs lack some, and one that fell off the bus lacks all."""
        try:
            return read()
        except self._nvml.NVMLError_NotSupported:
            return None
        except self._nvml.NVMLError as error:
            self._say(f"a GPU cannot be read: {error}")
            return None

    def _say(self, message: str) -> None:
        """Log a message when it is news, not at every sample."""
        if message != self._said:
            self._said = message
            log.info("%s", message)


def _text(name: str | bytes) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name

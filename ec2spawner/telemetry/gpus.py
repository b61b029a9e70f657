"""Selects the GPU source: NVML or a simulation."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from .gpu_source import GpuSource
from .nvml import NvmlGpus
from .simulated_gpus import SimulatedGpu, SimulatedGpus

log = logging.getLogger(__name__)


def find_gpus(simulated: str | None = None) -> GpuSource:
    """The source for this instance; `simulated` is the JSON of `EC2SPAWNER_SIMULATED_GPU`."""
    if simulated:
        try:
            return SimulatedGpus(SimulatedGpu.model_validate_json(simulated))
        except ValidationError as error:
            log.error("EC2SPAWNER_SIMULATED_GPU is invalid: %s", error)
    return NvmlGpus()

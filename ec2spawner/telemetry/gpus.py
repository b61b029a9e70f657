"""Selects the GPU source: NVML or a simulation."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import ValidationError

from .gpu_source import GpuSource
from .nvml import NvmlGpus
from .simulated_gpus import SimulatedGpu, SimulatedGpus

log = logging.getLogger(__name__)


def find_gpus(simulated: str | None = None, home: Path | None = None) -> GpuSource:
    """The source for this instance.

    `simulated` is the JSON of `EC2SPAWNER_SIMULATED_GPU`; `home` is the user's, where a program can
    ask for a simulated GPU.
    """
    if simulated:
        try:
            return SimulatedGpus(SimulatedGpu.model_validate_json(simulated), home)
        except ValidationError as error:
            log.error("EC2SPAWNER_SIMULATED_GPU is invalid: %s", error)
    return NvmlGpus()

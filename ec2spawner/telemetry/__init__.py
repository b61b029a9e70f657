"""Telemetry of the instance: GPUs, CPU, memory, processes, terminals; sampled by one thread.

The instance agent samples for the whole duration of a lease. The notebook extension samples only
without an agent, and more slowly while no page is open.
"""

from __future__ import annotations

from .gpu_source import GpuSource
from .gpus import find_gpus
from .history import HistoryBuffer
from .processes import Processes
from .sampler import Sampler

__all__ = ["GpuSource", "HistoryBuffer", "Processes", "Sampler", "find_gpus"]

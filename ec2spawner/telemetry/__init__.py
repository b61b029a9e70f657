"""What the machine does: GPUs, CPU, memory, processes and terminals, sampled by one thread.

The instance agent samples for the whole life of a lease; the notebook extension only where no
agent is, and more slowly while nobody looks.
"""

from __future__ import annotations

from .gpu_source import GpuSource
from .gpus import find_gpus
from .history import HistoryBuffer
from .processes import Processes
from .sampler import Sampler

__all__ = ["GpuSource", "HistoryBuffer", "Processes", "Sampler", "find_gpus"]

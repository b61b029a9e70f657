"""The interface of all GPU sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..wire import GpuSample, Sentence

Kind = Literal["nvml", "simulated", "none"]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with memory allocated on a GPU."""

    pid: int
    """0 if its process id is not visible in this namespace, as for a container."""
    gpu: int
    """Index of the GPU."""
    memory_mib: float | None = None
    use_percent: float | None = None
    """Of the GPU; unknown if the driver does not report it by process, as with slices."""


class GpuSource(Protocol):
    """A source of GPU samples. Nothing raises: what cannot be read is None."""

    kind: Kind
    error: Sentence | None
    """Why existing GPUs cannot be read; None without an error."""

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """All GPUs now. `user_cpu_percent`: the user's processes, in percent of one core."""

    def processes(self, busy: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """The processes with memory on the GPUs that were just sampled.

        `busy`: (process id, CPU use) of busy processes, which a simulation takes for the users of
        its GPUs. A driver ignores it.
        """

    def close(self) -> None:
        """Release the driver; a later sample opens it again."""

"""What every reader of GPUs has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..wire import GpuSample, Sentence

Kind = Literal["nvml", "simulated", "none"]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has memory on a GPU."""

    pid: int
    """0 where the driver does not know it by a number that counts here: a container's."""
    gpu: int
    """Index of the GPU."""
    memory_mib: float | None = None
    use_percent: float | None = None
    """Of the GPU; unknown if the driver does not report it by process, as with slices."""


class GpuSource(Protocol):
    """One reader of GPUs. None of it raises: what cannot be read is None."""

    kind: Kind
    error: Sentence | None
    """Why GPUs that are there cannot be read; None where nothing is wrong."""

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """All GPUs now. `user_cpu_percent`: the user's processes, in percent of one core."""

    def processes(self, at_work: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """Who has memory on the GPUs that were just sampled.

        `at_work`: processes by their number, with their CPU use. A simulation takes them for
        users of its GPUs; a driver knows better.
        """

    def close(self) -> None:
        """Release the driver; a later sample opens it again."""

"""Whether a whole process with its GPU state could move to another instance (CRIU). Pure.

Nothing does that yet: docs/explanation/whole-processes.md is the design. All conditions are judged,
so that a person sees everything that is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MIN_DRIVER: Final = 570
"""Branch of the NVIDIA driver from which cuda-checkpoint handles PyTorch processes."""

SECONDS: Final = 100.0
"""Of the two minutes of a spot notice: 5 to see it, 15 for the notebook's end and the home."""

RESERVE_BYTES: Final = 2 << 30
"""Free space that stays in the home."""

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of an instance, as its driver names it."""

    model: str
    memory_bytes: int
    used_bytes: int = 0
    """By all processes."""
    mig: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """What counts of an instance for a whole process."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    """Version, such as `570.86.15`; empty where there is none."""
    image_id: str = ""
    cpu_flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Process:
    """The kernel's process tree, and where it would be written. None is unknown, and counts as an
    obstacle."""

    resident_bytes: int
    free_memory_bytes: int
    """Of the host, without what the process has."""
    free_disk_bytes: int
    disk_bytes_per_second: float | None
    """Measured on the home by writing past the page cache."""
    uses_unified_memory: bool | None = None
    uses_mps: bool | None = None
    criu_works: bool | None = None
    """What `criu check` says on this kernel."""
    has_cuda_checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why it would not work."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it can work, and if not, every reason."""

    size_bytes: int
    """Of what would be written: the process and its GPU memory."""
    obstacles: tuple[Obstacle, ...]

    @property
    def can_work(self) -> bool:
        """True without any obstacle."""
        return not self.obstacles


def judge(process: Process, source: Host, target: Host, seconds: float = SECONDS) -> Verdict:
    """Whether the process could move from `source` to `target` within `seconds`."""
    gpu_bytes = sum(gpu.used_bytes for gpu in source.gpus)
    size = process.resident_bytes + gpu_bytes
    found = [
        *_of_tools(process),
        *_of_gpus(source, target),
        *_of_sharing(process, source),
        *_of_room(process, gpu_bytes, size, seconds),
        *_of_host(source, target),
    ]
    return Verdict(size, tuple(found))


def _of_tools(process: Process) -> Iterator[Obstacle]:
    if not process.criu_works:
        said = "has not been run" if process.criu_works is None else "fails on this kernel"
        yield Obstacle("criu", f"`criu check` {said}")
    if not process.has_cuda_checkpoint:
        yield Obstacle("cuda-checkpoint", "cuda-checkpoint is not installed")


def _of_gpus(source: Host, target: Host) -> Iterator[Obstacle]:
    before, after = _models(source), _models(target)
    if before != after:
        yield Obstacle("gpu", f"the GPUs differ: {_listed(before)} here, {_listed(after)} there")
    if source.gpus and _branch(source.driver) < MIN_DRIVER:
        said = source.driver or "unknown"
        yield Obstacle("driver", f"the driver is {said}: cuda-checkpoint needs {MIN_DRIVER}")
    if source.gpus and source.driver != target.driver:
        said = f"{source.driver or 'unknown'} here, {target.driver or 'unknown'} there"
        yield Obstacle("driver-differs", f"the drivers differ: {said}")


def _of_sharing(process: Process, source: Host) -> Iterator[Obstacle]:
    if any(gpu.mig for gpu in source.gpus):
        yield Obstacle("mig", "a GPU is divided by MIG")
    shared = {
        "unified-memory": (process.uses_unified_memory, "unified memory (UVM)"),
        "mps": (process.uses_mps, "the Multi-Process Service (MPS)"),
    }
    for code, (is_used, what) in shared.items():
        if source.gpus and is_used is not False:
            said = "uses" if is_used else "may use"
            yield Obstacle(code, f"the process {said} {what}")


def _of_room(process: Process, gpu_bytes: int, size: int, seconds: float) -> Iterator[Obstacle]:
    if process.free_memory_bytes < gpu_bytes:
        yield Obstacle(
            "host-memory",
            f"{_gib(gpu_bytes)} of GPU memory pass through host memory, of which "
            f"{_gib(process.free_memory_bytes)} are free",
        )
    if process.free_disk_bytes - RESERVE_BYTES < size:
        free = max(process.free_disk_bytes - RESERVE_BYTES, 0)
        yield Obstacle("disk", f"{_gib(size)} would be written, and {_gib(free)} are free")
    speed = process.disk_bytes_per_second
    if speed is None:
        yield Obstacle("disk-speed", "the speed of the home has not been measured")
    elif speed * seconds < size:
        said = f"{speed / 2**20:.0f} MiB/s write {_gib(int(speed * seconds))} in {seconds:g} s"
        yield Obstacle("disk-speed", f"{said}, of {_gib(size)}")


def _of_host(source: Host, target: Host) -> Iterator[Obstacle]:
    """CRIU maps the same files again and resumes the same instructions."""
    if not source.image_id or source.image_id != target.image_id:
        yield Obstacle("image", "the images differ: the process maps files of its own")
    if missing := source.cpu_flags - target.cpu_flags:
        yield Obstacle("cpu", f"the CPU there lacks {', '.join(sorted(missing)[:5])}")


def _models(host: Host) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((gpu.model, gpu.memory_bytes) for gpu in host.gpus))


def _listed(models: tuple[tuple[str, int], ...]) -> str:
    names = [name for name, _ in models]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names)) or "none"


def _branch(driver: str) -> int:
    """The first number of a version; 0 where it has none."""
    first = driver.partition(".")[0]
    return int(first) if first.isdecimal() else 0


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"

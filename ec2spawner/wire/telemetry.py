"""What the machine does: GPUs, CPU, memory, disk, network, and who uses them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .message import Message, Percent, ShortText
from .sentences import Sentence

SlowedBy = Literal["power", "heat", "hardware", "sync"]
"""Why a GPU's clocks are lower than they could be: its power limit, its temperature, a brake of
the board, or other GPUs that it keeps step with."""

Index = Annotated[int, Field(ge=0, le=4095)]
Count = Annotated[int, Field(ge=0, le=2**64)]


class MigSlice(Message):
    """One slice of a GPU that is cut into several (Multi-Instance GPU)."""

    index: Index
    profile: ShortText = ""
    """As NVIDIA names its size: `1g.5gb`."""
    uuid: ShortText = ""
    use_percent: Percent | None = None
    memory_used_mib: Annotated[float, Field(ge=0)] | None = None
    memory_total_mib: Annotated[float, Field(ge=0)] | None = None


class GpuSample(Message):
    """One GPU, now."""

    index: Index
    name: ShortText
    use_percent: Percent | None = None
    memory_used_mib: Annotated[float, Field(ge=0)] | None = None
    memory_total_mib: Annotated[float, Field(ge=0)] | None = None
    temperature_c: float | None = None
    power_w: Annotated[float, Field(ge=0)] | None = None
    uuid: ShortText = ""
    power_limit_w: Annotated[float, Field(ge=0)] | None = None
    clock_mhz: Annotated[float, Field(ge=0)] | None = None
    """Of the multiprocessors."""
    clock_max_mhz: Annotated[float, Field(ge=0)] | None = None
    memory_clock_mhz: Annotated[float, Field(ge=0)] | None = None
    slowed_by: Annotated[list[SlowedBy], Field(max_length=8)] = []
    """What holds the clocks down now."""
    ecc_corrected: Count | None = None
    """Memory errors since the driver was loaded."""
    ecc_uncorrected: Count | None = None
    xid: Count | None = None
    """The last critical error that the driver reported, by NVIDIA's number."""
    xid_at: AwareDatetime | None = None
    lost: bool = False
    """The GPU stopped responding: it fell off the bus."""
    mig: Annotated[list[MigSlice], Field(max_length=16)] = []
    """Its slices in MIG mode, in which the GPU itself reports no use."""


class Worker(Message):
    """A kernel, a terminal or another program of the user, with all that it has started."""

    kind: Literal["kernel", "terminal", "program"]
    name: ShortText
    """For people: the notebook's path, what runs in the terminal, the program."""
    pid: Count
    kernel_id: Annotated[str, Field(max_length=200)] = ""
    terminal: ShortText = ""
    """The name of Jupyter's terminal, where it is one: the browser opens it by that."""
    cpu_percent: Annotated[float, Field(ge=0)] | None = None
    """Percent of one core."""
    memory_mib: Annotated[float, Field(ge=0)] | None = None
    gpus: Annotated[list[Index], Field(max_length=64)] = []
    """Indices of the GPUs that it has memory on."""
    gpu_percent: Percent | None = None
    """Of the GPU that it uses most; unknown if the driver does not report it by process."""
    gpu_memory_mib: Annotated[float, Field(ge=0)] | None = None
    """On all of them together."""


DiskKind = Literal["home", "system", "data", "scratch"]


class DiskUse(Message):
    """How full one disk of the machine is, as `df` shows it."""

    kind: DiskKind
    """A home on the system disk has none of its own."""
    path: Annotated[ShortText, Field(max_length=200)] = ""
    """Where the user finds it."""
    used_percent: Percent
    free_bytes: Annotated[int, Field(ge=0, le=2**60)] = 0
    inodes_percent: Percent | None = None
    """None where the file system has no fixed number of them."""
    is_writable: bool = True
    """False for a data set that is mounted for reading."""


MAX_DISKS = 16


class Telemetry(Message):
    """What the machine does, now."""

    at: AwareDatetime
    gpu_source: Literal["nvml", "simulated", "none"] = "none"
    gpu_error: Sentence | None = None
    """Why GPUs that are there cannot be read; None where nothing is wrong."""
    gpus: Annotated[list[GpuSample], Field(max_length=64)] = []
    cpu_percent: Percent | None = None
    """Of all cores together."""
    memory_used_mib: Annotated[float, Field(ge=0)] | None = None
    memory_total_mib: Annotated[float, Field(ge=0)] | None = None
    cpu_count: Annotated[int, Field(ge=1, le=2**20)] | None = None
    disk_used_mib: Annotated[float, Field(ge=0)] | None = None
    """Of the file system that holds the home."""
    disk_total_mib: Annotated[float, Field(ge=0)] | None = None
    disk_read_mib_per_s: Annotated[float, Field(ge=0)] | None = None
    """Of all disks together, as the network below."""
    disk_write_mib_per_s: Annotated[float, Field(ge=0)] | None = None
    network_in_mib_per_s: Annotated[float, Field(ge=0)] | None = None
    network_out_mib_per_s: Annotated[float, Field(ge=0)] | None = None
    workers: Annotated[list[Worker], Field(max_length=50)] = []
    """Who uses the GPUs and the CPU, the busiest first."""


class GpuHistory(Message):
    """Use and memory of one GPU in percent (0-100), one value for each step of `History.at`."""

    index: Index
    name: ShortText = ""
    use_percent: list[float | None] = []
    memory_percent: list[float | None] = []


class History(Message):
    """`GET {base}/ec2spawner/api/history?since=...`: the last hour, oldest first.

    All lists are as long as `at`; None is a step in which nothing was measured.
    """

    step_seconds: float
    at: list[float] = []
    """The end of each step, in seconds since the epoch by the server's clock."""
    cpu_percent: list[float | None] = []
    memory_percent: list[float | None] = []
    gpus: list[GpuHistory] = []

"""Measures GPUs one after another: copies, their memory's bandwidth, whether data comes back whole.

Sizes are bounded by what is free, since the user's kernels may hold the rest, and each figure by
time. The best of several rounds counts: whatever disturbs a round only makes it slower.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .contention import opened_nvml, use_percent, use_percent_after_ours
from .cuda_driver import NO_DEVICE, OUT_OF_MEMORY, Context, CudaError, Device, Driver, NoDriver
from .figures import Figure, FigureName, Figures, GpuFigures
from .matrix import matrix_products
from .watchdog import watchdog

MIB: Final = 2**20

SIMULATED_GPU: Final = "EC2SPAWNER_SIMULATED_GPU"
"""Set on an instance of the embedded EC2 whose type would have a GPU."""

PINNED_BYTES: Final = 64 * MIB
"""Large enough that starting a copy takes under 1 % of its time, small enough to be pinned fast."""

BLOCK_BYTES: Final = 256 * MIB
"""Of the GPU's memory, twice. Twice the largest cache of a GPU (126 MB on a B200): what is copied
comes from the memory, not from the cache."""

MIN_BLOCK_BYTES: Final = 32 * MIB
"""A smaller block is inconclusive: the whole copy stays in the cache of most GPUs."""

FREE_SHARE: Final = 4
"""Both blocks together take at most half of the free memory."""

MAX_ROUNDS: Final = 50
COPIES_PER_ROUND: Final = 4

FAULTS: Final = frozenset(
    {
        214,  # CUDA_ERROR_ECC_UNCORRECTABLE
        220,  # CUDA_ERROR_NVLINK_UNCORRECTABLE
        700,  # CUDA_ERROR_ILLEGAL_ADDRESS: the addresses are the driver's own
        714,  # CUDA_ERROR_HARDWARE_STACK_ERROR
        719,  # CUDA_ERROR_LAUNCH_FAILED
    }
)
"""Errors that a plain copy meets on a broken GPU and on no other. Whatever else fails may be the
image's fault or the moment's, such as a driver that is not loaded yet."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    seconds: float
    """For each figure of each GPU."""
    products: bool
    """Matrix products too: PyTorch and CuPy take seconds to be imported."""


SHORT: Final = Plan(seconds=0.15, products=False)
FULL: Final = Plan(seconds=0.5, products=True)


def measure(plan: Plan, hung: Callable[[Figures], None]) -> Figures:
    """Measure all GPUs of this machine. The driver's errors are part of the result.

    `hung` is called from another thread with the figures so far if a GPU stops responding. It must
    end the process, because a call that waits for the driver cannot be cancelled.
    """
    try:
        driver = Driver()
        devices = driver.devices()
    except (NoDriver, CudaError) as error:
        return Figures(problem=_why(error))
    if not devices:
        return Figures(problem="The NVIDIA driver shows no GPU.")
    plan = replace(plan, seconds=min(plan.seconds, 4 * plan.seconds / len(devices)))
    done: list[GpuFigures] = []
    with opened_nvml() as nvml:
        before = [use_percent(nvml, device.bus_id) for device in devices]
        for device, used in zip(devices, before, strict=True):
            done.append(_measure_gpu(driver, device, plan, used, done, hung))
        if plan.products:
            after = use_percent_after_ours(nvml, [device.bus_id for device in devices])
            done = [_used(gpu, more) for gpu, more in zip(done, after, strict=True)]
    return Figures(tuple(done))


def _measure_gpu(
    driver: Driver,
    device: Device,
    plan: Plan,
    used: float | None,
    done: Sequence[GpuFigures],
    hung: Callable[[Figures], None],
) -> GpuFigures:
    gpu = GpuFigures(
        device.index, device.name, device.memory_bytes / MIB, used_by_others_percent=used
    )

    def bark() -> None:
        broken = "it stopped responding during a copy"
        hung(Figures((*done, replace(gpu, broken=broken))))

    try:
        with driver.context(device) as context:
            copies = _Copies(context, plan.seconds)
            with watchdog(bark):
                broken = copies.difference()
                figures = () if broken else copies.figures()
    except CudaError as error:
        if error.code in FAULTS:
            return replace(gpu, broken=f"a copy failed with {error.name}")
        return replace(gpu, problem=_why(error))
    except NoDriver as error:
        return replace(gpu, problem=_why(error))
    if plan.products and not broken:
        figures += matrix_products(device.index, plan.seconds)
    return replace(gpu, figures=figures, broken=broken)


class _Copies:
    """The buffers of one GPU, and the copies between them."""

    def __init__(self, context: Context, seconds: float) -> None:
        self._context = context
        self._seconds = seconds
        self._free = context.free_bytes()
        self._block = min(BLOCK_BYTES, self._free // FREE_SHARE // MIB * MIB)
        self._size = min(PINNED_BYTES, self._block)
        if self._size < MIB:
            raise CudaError("cuMemAlloc_v2", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY")
        self._one = context.allocate(self._block)
        self._other = context.allocate(self._block)
        self._sent = context.allocate_pinned(self._size)
        self._back = context.allocate_pinned(self._size)
        self._marks = context.event(), context.event()

    def difference(self) -> str:
        """How data differs after a round trip through both blocks, for people; else empty."""
        noise = random.Random(self._block).randbytes(self._size)
        ctypes.memmove(self._sent, noise, self._size)
        for place in range(0, self._block - self._size + 1, self._size):
            self._context.to_device(self._one + place, self._sent, self._size)
            self._context.within(self._other + place, self._one + place, self._size)
            ctypes.memset(self._back, 0, self._size)
            self._context.to_host(self._back, self._other + place, self._size)
            came = ctypes.string_at(self._back, self._size)
            if came != noise:
                wrong = (int.from_bytes(came) ^ int.from_bytes(noise)).bit_count()
                bits = "1 bit" if wrong == 1 else f"{wrong} bits"
                return f"{bits} of {self._size // MIB} MiB came back different"
        return ""

    def figures(self) -> tuple[Figure, ...]:
        copy, size = self._context, self._size
        to_gpu = self._best(lambda: copy.to_device(self._one, self._sent, size), size)
        from_gpu = self._best(lambda: copy.to_host(self._back, self._one, size), size)
        return (Figure("to_gpu", to_gpu), Figure("from_gpu", from_gpu), self._memory())

    def _memory(self) -> Figure:
        name: FigureName = "memory"
        if self._block < MIN_BLOCK_BYTES:
            return Figure(name, None, f"only {self._free // MIB} MiB of the GPU's memory are free")
        copy, block = self._context, self._block
        # Each byte is read once and written once.
        return Figure(
            name, self._best(lambda: copy.within(self._other, self._one, block), 2 * block)
        )

    def _best(self, copy: Callable[[], None], counted: int) -> float | None:
        """GB/s of the fastest round, in the GPU's own time."""
        start, end = self._marks
        copy()
        self._context.synchronize()
        fastest = 0.0
        deadline = time.monotonic() + self._seconds
        for _ in range(MAX_ROUNDS):
            self._context.record(start)
            for _ in range(COPIES_PER_ROUND):
                copy()
            self._context.record(end)
            seconds = self._context.seconds_between(start, end)
            if seconds > 0:
                fastest = max(fastest, COPIES_PER_ROUND * counted / seconds / 1e9)
            if time.monotonic() >= deadline:
                break
        return fastest or None


def _used(gpu: GpuFigures, more: float | None) -> GpuFigures:
    known = [each for each in (gpu.used_by_others_percent, more) if each is not None]
    return replace(gpu, used_by_others_percent=max(known, default=None))


def _why(error: Exception) -> str:
    if isinstance(error, NoDriver) and os.environ.get(SIMULATED_GPU):
        return "The GPU of this server is simulated: there is nothing to measure."
    if isinstance(error, NoDriver):
        return f"There is no NVIDIA driver here that CUDA programs can use: {error}."
    assert isinstance(error, CudaError)
    if error.code == OUT_OF_MEMORY:
        return "The GPU's memory is full: shut down the kernels that hold it, and try again."
    if error.code == NO_DEVICE:
        return "The NVIDIA driver shows no GPU."
    return f"The NVIDIA driver does not work here: {error}."

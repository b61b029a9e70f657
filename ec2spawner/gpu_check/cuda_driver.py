"""NVIDIA's CUDA driver by its C interface: no toolkit, no compiler, only `libcuda.so.1`.

Names and numbers are those of `cuda.h`. Every call releases Python's lock while it waits.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, Final

LIBRARY: Final = "libcuda.so.1"

OUT_OF_MEMORY: Final = 2
NO_DEVICE: Final = 100

_NAME_BYTES: Final = 256
_BUS_ID_BYTES: Final = 32
_BLOCKING_SYNC: Final = 1
"""`CU_EVENT_BLOCKING_SYNC`: who waits sleeps, and does not keep a core busy."""


class NoDriver(Exception):
    """There is no CUDA driver here, or one that cannot be loaded."""


class CudaError(Exception):
    """A call that the driver answered with an error."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.call = call
        self.code = code
        self.name = name


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as CUDA enumerates it, which `CUDA_VISIBLE_DEVICES` changes."""

    index: int
    handle: int
    name: str
    bus_id: str
    """`0000:00:1e.0`, by which NVML knows it too."""
    memory_bytes: int


class Driver:
    """The driver, initialized. Raises `NoDriver` and `CudaError`, as does everything here."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NoDriver(str(error)) from error
        self.call("cuInit", c_int(0))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises `CudaError`, or `NoDriver` if it lacks the function.
        """
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise NoDriver(f"the driver is too old: it has no {name}") from error
        if code := function(*arguments):
            raise CudaError(name, code, self._name_of(code))

    def _name_of(self, code: int) -> str:
        name = c_char_p()
        if self._library.cuGetErrorName(c_int(code), byref(name)) or not name.value:
            return "an unknown error"
        return name.value.decode(errors="replace")

    def devices(self) -> list[Device]:
        """The GPUs that CUDA shows this process."""
        count = c_int()
        self.call("cuDeviceGetCount", byref(count))
        return [self._device(index) for index in range(count.value)]

    def _device(self, index: int) -> Device:
        handle, memory = c_int(), c_size_t()
        name, bus_id = (
            ctypes.create_string_buffer(_NAME_BYTES),
            ctypes.create_string_buffer(_BUS_ID_BYTES),
        )
        self.call("cuDeviceGet", byref(handle), c_int(index))
        self.call("cuDeviceGetName", name, c_int(_NAME_BYTES), handle)
        self.call("cuDeviceGetPCIBusId", bus_id, c_int(_BUS_ID_BYTES), handle)
        self.call("cuDeviceTotalMem_v2", byref(memory), handle)
        return Device(
            index,
            handle.value,
            name.value.decode(errors="replace"),
            bus_id.value.decode(errors="replace"),
            memory.value,
        )

    @contextlib.contextmanager
    def context(self, device: Device) -> Iterator[Context]:
        """The device's primary context, which libraries in this process share."""
        handle = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(handle), c_int(device.handle))
        try:
            self.call("cuCtxSetCurrent", handle)
            context = Context(self)
            try:
                yield context
            finally:
                context.free()
        finally:
            self._quietly("cuCtxSetCurrent", c_void_p())
            self._quietly("cuDevicePrimaryCtxRelease_v2", c_int(device.handle))

    def _quietly(self, name: str, *arguments: Any) -> None:
        """Tidy up; a GPU that has failed refuses that too, and the process's end does it."""
        with contextlib.suppress(CudaError, NoDriver):
            self.call(name, *arguments)


class Context:
    """Memory and time of one device. All that is allocated is freed with the context."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._device_memory: list[c_uint64] = []
        self._host_memory: list[c_void_p] = []
        self._events: list[c_void_p] = []

    def free_bytes(self) -> int:
        """Free memory of the GPU in bytes."""
        free, total = c_size_t(), c_size_t()
        self._driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def allocate(self, size: int) -> int:
        """Memory of the device; its address."""
        address = c_uint64()
        self._driver.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self._device_memory.append(address)
        return address.value

    def allocate_pinned(self, size: int) -> int:
        """Memory of the host that the device reads by itself; its address."""
        address = c_void_p()
        self._driver.call("cuMemAllocHost_v2", byref(address), c_size_t(size))
        self._host_memory.append(address)
        assert address.value is not None
        return address.value

    def to_device(self, device: int, host: int, size: int) -> None:
        """Copy `size` bytes from host memory to the GPU."""
        self._driver.call("cuMemcpyHtoD_v2", c_uint64(device), c_void_p(host), c_size_t(size))

    def to_host(self, host: int, device: int, size: int) -> None:
        """Copy `size` bytes from the GPU to host memory."""
        self._driver.call("cuMemcpyDtoH_v2", c_void_p(host), c_uint64(device), c_size_t(size))

    def within(self, to: int, source: int, size: int) -> None:
        """Enqueue a copy of `size` bytes inside the GPU."""
        self._driver.call("cuMemcpyDtoD_v2", c_uint64(to), c_uint64(source), c_size_t(size))

    def synchronize(self) -> None:
        """Wait until the GPU has finished; errors of earlier calls surface here."""
        self._driver.call("cuCtxSynchronize")

    def event(self) -> c_void_p:
        """A mark in the device's own time."""
        event = c_void_p()
        self._driver.call("cuEventCreate", byref(event), c_int(_BLOCKING_SYNC))
        self._events.append(event)
        return event

    def record(self, event: c_void_p) -> None:
        """Enqueue a time stamp after the work enqueued so far."""
        self._driver.call("cuEventRecord", event, c_void_p())

    def seconds_between(self, start: c_void_p, end: c_void_p) -> float:
        """Waits for `end` to be reached. The clock's step is half a microsecond."""
        milliseconds = c_float()
        self._driver.call("cuEventSynchronize", end)
        self._driver.call("cuEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value / 1000

    def free(self) -> None:
        """Free events and memory, ignoring errors: the driver may have failed."""
        for event in self._events:
            self._driver._quietly("cuEventDestroy_v2", event)
        for host in self._host_memory:
            self._driver._quietly("cuMemFreeHost", host)
        for address in self._device_memory:
            self._driver._quietly("cuMemFree_v2", address)
        self._events, self._host_memory, self._device_memory = [], [], []

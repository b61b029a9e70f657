"""One NVIDIA GPU, read through NVML.

Figures that change each second are read at each sample, others less often: a call into the driver
takes between a microsecond and a millisecond.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.instances import gpu_xid_errors
from ..wire import GpuSample, MigSlice, SlowedBy
from .gpu_source import GpuProcess

log = logging.getLogger(__name__)

MIB = 2**20

OFTEN_SECONDS = 2.0
"""Interval for clocks, the reasons that they are slowed, and processes with memory."""

SELDOM_SECONDS = 30.0
"""Interval for memory errors, power limit, maximum clock and MIG slices."""

UNSUPPORTED_SECONDS = 600.0
"""Interval for figures that this GPU does not support or permit: that may depend on a mode."""

USE_SECONDS = 5.0
"""How long the use by a process counts; the driver reports it once a second, while there is
any."""

SLOWED_BY: dict[SlowedBy, int] = {"power": 0x4, "heat": 0x20 | 0x40, "sync": 0x10}
"""Bits of `nvmlClocksEventReason...`; NVML's older name for the same is throttle reasons."""

HW_SLOWDOWN, HW_THERMAL, HW_POWER_BRAKE = 0x8, 0x40, 0x80
"""The first accompanies each of the others; alone it gives no reason."""

CLOCK_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
PROCESS_USE = "nvmlDeviceGetProcessUtilization"
RUNNING_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)


class GpuLostError(Exception):
    """The GPU stopped responding."""


class DriverGoneError(Exception):
    """The whole driver stopped responding."""


@dataclass(frozen=True, slots=True)
class _Slice:
    index: int
    profile: str
    uuid: str
    handle: Any


class NvmlGpu:
    """A GPU by its handle. Once it is open, its methods raise only `DriverGoneError`."""

    def __init__(
        self,
        nvml: Any,
        index: int,
        handle: Any,
        name: str,
        uuid: str,
        log_once: Callable[[str], None],
    ) -> None:
        self._nvml = nvml
        self._log_once = log_once
        self.index = index
        self.handle = handle
        self.name = name
        self.uuid = uuid
        self.xid: int | None = None
        """The last critical error, or a more severe one before it."""
        self.xid_at: datetime | None = None
        self.is_lost = False
        self._was_lost = False
        """It was lost when the driver was last open, and has not responded since."""
        self._failures = 0
        """The number of unexpected failures in this sample."""
        self._not_before: dict[tuple[Any, ...], float] = {}
        """Calls that this GPU does not support, and when they are tried again."""
        self._cache: dict[str, tuple[float, Any]] = {}
        """Figures that are not read at each sample: (valid until, figure)."""
        self._clock = 0.0
        self._use_seen = 0
        """The driver's timestamp of the last utilization sample, in microseconds."""
        self._uses: dict[int, tuple[float, float]] = {}
        """By process: (percent, when)."""
        self._use_percent: float | None = None

    @classmethod
    def open(cls, nvml: Any, position: int, log_once: Callable[[str], None]) -> NvmlGpu:
        """The GPU at a position in NVML's list. Raises `GpuLostError`, or what NVML raises."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(position)
            name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
        except nvml.NVMLError as error:
            if error.value in _lost_codes(nvml):
                raise GpuLostError from error
            raise
        return cls(nvml, position, handle, _text(name), _text(uuid), log_once)

    @classmethod
    def lost_one(cls, nvml: Any, position: int, log_once: Callable[[str], None]) -> NvmlGpu:
        """A GPU that was lost before its name was read."""
        return cls(nvml, position, None, "NVIDIA GPU", "", log_once)

    @property
    def label(self) -> str:
        """Index and model, for people."""
        return f"GPU {self.index} ({self.name})"

    def follow(self, before: NvmlGpu) -> None:
        """Take over index and errors of the same GPU from when the driver was last open."""
        self.index = before.index
        self.xid, self.xid_at = before.xid, before.xid_at
        self._was_lost = before.is_lost or before._was_lost

    def lose(self, *, quietly: bool = False) -> None:
        """Mark it as lost: it is not read until the driver is reopened."""
        if not (self.is_lost or self._was_lost or quietly):
            log.warning("%s is lost: it stopped responding", self.label)
        self.is_lost = True

    def take_xid(self, number: int, at: datetime) -> None:
        """The driver has reported an error. It never hides a more severe one that still matters."""
        before = self.xid
        if (
            before is None
            or gpu_xid_errors.gravity(number) >= gpu_xid_errors.gravity(before)
            or gpu_xid_errors.is_history(before, self.xid_at, at)
        ):
            self.xid, self.xid_at = number, at

    def as_lost(self) -> GpuSample:
        """The sample of a GPU that fell off the bus: identity and last error."""
        return GpuSample(
            index=self.index,
            name=self.name,
            uuid=self.uuid,
            xid=self.xid,
            xid_at=self.xid_at,
            lost=True,
        )

    def sample(self, now: float) -> GpuSample:
        """The GPU now; `now` is monotonic."""
        if self.is_lost:
            return self.as_lost()
        self._clock, self._failures = now, 0
        try:
            sample = self._sample()
        except GpuLostError:
            self.lose()
            return self.as_lost()
        if self._was_lost:
            self._was_lost = False
            log.warning("%s responds again", self.label)
        return sample

    def processes(self, now: float) -> list[GpuProcess]:
        """Processes with memory on it; empty if the driver does not report them."""
        if self.is_lost:
            return []
        self._clock = now
        try:
            found: list[GpuProcess] = self._cached("processes", OFTEN_SECONDS, self._processes)
        except GpuLostError:
            self.lose()
            return []
        return found

    # --- figures -------------------------------------------------------------------------------

    def _sample(self) -> GpuSample:
        nvml = self._nvml
        slices: list[_Slice] = self._cached("slices", SELDOM_SECONDS, self._slices)
        memory = self._read("nvmlDeviceGetMemoryInfo")
        # A GPU with MIG slices does not report its use.
        use = None if slices else self._read("nvmlDeviceGetUtilizationRates")
        temperature = self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        power = self._read("nvmlDeviceGetPowerUsage")
        if self._failures and memory is use is temperature is power is None:
            raise GpuLostError
        self._use_percent = None if use is None else float(min(max(use.gpu, 0), 100))
        sm, of_memory, reasons = self._cached("clocks", OFTEN_SECONDS, self._clocks)
        limit, clock_max, corrected, uncorrected = self._cached(
            "limits", SELDOM_SECONDS, self._limits
        )
        return GpuSample(
            index=self.index,
            name=self.name,
            uuid=self.uuid,
            use_percent=self._use_percent,
            memory_used_mib=None if memory is None else _mib(memory.used),
            memory_total_mib=None if memory is None else _mib(memory.total),
            temperature_c=temperature,
            power_w=None if power is None else power / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            clock_mhz=sm,
            clock_max_mhz=clock_max,
            memory_clock_mhz=of_memory,
            slowed_by=reasons,
            ecc_corrected=corrected,
            ecc_uncorrected=uncorrected,
            xid=self.xid,
            xid_at=self.xid_at,
            mig=[self._slice(each) for each in slices],
        )

    def _clocks(self) -> tuple[int | None, int | None, list[SlowedBy]]:
        nvml = self._nvml
        return (
            self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            slowed_by(self._read_first(CLOCK_REASONS) or 0),
        )

    def _limits(self) -> tuple[int | None, int | None, int | None, int | None]:
        nvml = self._nvml
        ecc = "nvmlDeviceGetTotalEccErrors"
        return (
            self._read("nvmlDeviceGetEnforcedPowerLimit"),
            self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            self._read(ecc, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC),
            self._read(ecc, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        )

    def _slices(self) -> list[_Slice]:
        mode = self._read("nvmlDeviceGetMigMode")
        if mode is None or mode[0] != self._nvml.NVML_DEVICE_MIG_ENABLE:
            return []
        found = []
        for position in range(min(self._read("nvmlDeviceGetMaxMigDeviceCount") or 0, 16)):
            try:
                handle = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, position)
                name, uuid = (
                    self._nvml.nvmlDeviceGetName(handle),
                    self._nvml.nvmlDeviceGetUUID(handle),
                )
            except self._nvml.NVMLError:
                continue  # an empty place
            # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
            profile = _text(name).rpartition(" MIG ")[2]
            found.append(_Slice(position, profile, _text(uuid), handle))
        return found

    def _slice(self, slice_: _Slice) -> MigSlice:
        memory = self._read("nvmlDeviceGetMemoryInfo", of=slice_.handle)
        return MigSlice(
            index=slice_.index,
            profile=slice_.profile,
            uuid=slice_.uuid,
            memory_used_mib=None if memory is None else _mib(memory.used),
            memory_total_mib=None if memory is None else _mib(memory.total),
        )

    # --- processes -----------------------------------------------------------------------------

    def _processes(self) -> list[GpuProcess]:
        slices: list[_Slice] = self._cached("slices", SELDOM_SECONDS, self._slices)
        memory: dict[int, float | None] = {}
        for handle in [each.handle for each in slices] or [self.handle]:
            for found in self._read_first(RUNNING_PROCESSES, of=handle) or []:
                used = found.usedGpuMemory
                if used is not None:
                    memory[found.pid] = (memory.get(found.pid) or 0.0) + _mib(used)
                else:
                    memory.setdefault(found.pid, None)
        uses = None if slices or not memory else self._use_by_process()
        if uses is None and len(memory) == 1 and not slices and self._use_percent is not None:
            # A single process on a GPU accounts for all of its use.
            uses = dict.fromkeys(memory, self._use_percent)
        return [
            GpuProcess(pid, self.index, used, None if uses is None else uses.get(pid, 0.0))
            for pid, used in memory.items()
        ]

    def _use_by_process(self) -> dict[int, float] | None:
        """Use of the multiprocessors by process, those without any left out; None: not reported."""
        is_first = not self._use_seen
        if self._clock < self._not_before.get((PROCESS_USE, True), -math.inf):
            return None
        try:
            samples = getattr(self._nvml, PROCESS_USE)(self.handle, self._use_seen)
        except self._nvml.NVMLError_NotFound:
            samples = []  # no use since
        except self._nvml.NVMLError as error:
            # Noted without arguments, because the timestamp differs in each call.
            self._note((PROCESS_USE, True), error)
            return None
        for each in sorted(samples, key=lambda sample: sample.timeStamp):
            self._use_seen = max(self._use_seen, each.timeStamp)
            # The first answer may be hours old; and some drivers report invalid shares.
            if not is_first and each.smUtil <= 100:
                self._uses[each.pid] = (float(each.smUtil), self._clock)
        self._uses = {
            pid: use for pid, use in self._uses.items() if self._clock - use[1] <= USE_SECONDS
        }
        return {pid: percent for pid, (percent, _) in self._uses.items()}

    # --- driver calls ----------------------------------------------------------------------------

    def _cached(self, what: str, seconds: float, read: Callable[[], Any]) -> Any:
        """A figure that is read again only after some seconds."""
        until, figure = self._cache.get(what, (-math.inf, None))
        if self._clock >= until:
            figure = read()
            # Half a sample early, to avoid being a whole one late.
            self._cache[what] = (self._clock + seconds - 0.5, figure)
        return figure

    def _read(self, name: str, *arguments: Any, of: Any = None) -> Any:
        """One figure; None if it cannot be read. Raises `GpuLostError`."""
        call = (name, of is None or of is self.handle, *arguments)
        if self._not_before and self._clock < self._not_before.get(call, -math.inf):
            return None
        try:
            return getattr(self._nvml, name)(self.handle if of is None else of, *arguments)
        except self._nvml.NVMLError as error:
            self._note(call, error)
            return None

    def _read_first(self, names: tuple[str, ...], of: Any = None) -> Any:
        """The first figure among several names: older drivers only know the older one."""
        for name in names:
            if (figure := self._read(name, of=of)) is not None:
                return figure
        return None

    def _note(self, call: tuple[Any, ...], error: Any) -> None:
        nvml = self._nvml
        if error.value in _lost_codes(nvml):
            raise GpuLostError from error
        if error.value in (
            nvml.NVML_ERROR_UNINITIALIZED,
            nvml.NVML_ERROR_DRIVER_NOT_LOADED,
            nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        ):
            raise DriverGoneError(str(error)) from error
        if error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        ):
            self._not_before[call] = self._clock + UNSUPPORTED_SECONDS
            return
        self._failures += 1
        self._log_once(f"{self.label} cannot be read: {error}")


def slowed_by(reasons: int) -> list[SlowedBy]:
    """Why the clocks are lower than they could be, from NVML's bits."""
    found: list[SlowedBy] = [why for why, bits in SLOWED_BY.items() if reasons & bits]
    brakes = reasons & (HW_SLOWDOWN | HW_THERMAL | HW_POWER_BRAKE)
    if brakes == HW_SLOWDOWN or brakes & HW_POWER_BRAKE:
        found.append("hardware")
    return found


def error_code(error: BaseException) -> int | None:
    """NVML's number of an error, or of the one that caused it."""
    code = getattr(error, "value", None)
    if code is None and error.__cause__ is not None:
        return error_code(error.__cause__)
    return code if isinstance(code, int) else None


def _lost_codes(nvml: Any) -> tuple[int, int]:
    return nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED


def _mib(amount: int) -> float:
    return round(amount / MIB, 1)


def _text(name: str | bytes) -> str:
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return text[:200]

"""NVIDIA GPUs through NVML: the driver as a whole. `nvml_gpu.py` reads one GPU.

Runs in the sampling thread. Nothing raises; an error is logged once.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..wire import GpuSample, Sentence, sentence
from .gpu_source import GpuProcess, Kind
from .nvml_gpu import GpuLostError, NvmlGpu, error_code

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
"""Between two tries to open the driver: it may load late."""

LOST_RETRY_SECONDS = 30.0
LOST_RETRY_MAX_SECONDS = 600.0
"""The first and the longest wait before a lost GPU is looked for again; it doubles each time,
because this reopens the driver, which may already be in trouble."""

LOG_INTERVAL_SECONDS = 3600.0
"""The same message is not logged again for this long."""

MAX_EVENTS_PER_SAMPLE = 16
"""A GPU that fails may report errors without end; the rest is read with the next sample."""

PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASS = "0x03"
"""First byte of the PCI class of every GPU, with or without a display."""


class NvmlGpus:
    """NVML through `nvidia-ml-py`. Without a driver or GPU it has no GPUs and retries later.

    A GPU keeps its index for the life of this object, although NVML renumbers the rest after one
    is lost.
    """

    kind: Kind = "none"

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._clock = clock
        self._now = now
        self._nvml: Any = None
        self._gpus: list[NvmlGpu] = []
        self._events: Any = None
        self._retry_at = clock()
        self._lost_retry_seconds = LOST_RETRY_SECONDS
        self._check_for_lost_at: float | None = None
        self._logged_at: dict[str, float] = {}
        self.error: Sentence | None = None

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """One sample per known GPU; all of them as lost while the driver fails."""
        try:
            if self._nvml is None and self._clock() >= self._retry_at:
                self._open()
            elif self._check_for_lost_at is not None and self._clock() >= self._check_for_lost_at:
                self._reopen()
            if self._nvml is not None:
                self._read_events()
                samples = [each.sample(self._clock()) for each in self._gpus]
                self._note_lost()
                return samples
        except Exception as error:
            # Whatever is wrong with the driver or its library, everything else is still measured.
            self._give_up(error)
        return [each.as_lost() for each in self._gpus]

    def processes(self, at_work: Sequence[tuple[int, float]]) -> list[GpuProcess]:
        """What each process uses of each GPU; empty if the driver does not report it."""
        if self._nvml is None:
            return []
        try:
            return [found for each in self._gpus for found in each.processes(self._clock())]
        except Exception as error:
            self._give_up(error)
            return []

    def close(self) -> None:
        """Shut NVML down; the next sample opens it again."""
        self._shut()
        self._gpus, self.kind, self.error = [], "none", None
        self._check_for_lost_at = None
        self._retry_at = self._clock()

    # --- the driver --------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the driver and list its GPUs; those seen before are the same ones."""
        self._retry_at = self._clock() + RETRY_SECONDS
        # Imported late: eight thousand lines, which delay the start without need.
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.error = _why(error)
            self._log_once(f"no readable NVIDIA GPU: {error}")
            return
        self._nvml = pynvml
        self.error = None
        self._gpus = self._list()
        if not self._gpus:
            self._shut()
            return
        self.kind = "nvml"
        self._listen()

    def _reopen(self) -> None:
        """Scan for lost GPUs: a driver finds one that came back only when it is opened anew."""
        self._check_for_lost_at = None
        self._shut()
        self._open()

    def _list(self) -> list[NvmlGpu]:
        before = {each.uuid: each for each in self._gpus}
        found: list[NvmlGpu] = []
        unnamed: list[int] = []
        for position in range(self._nvml.nvmlDeviceGetCount()):
            try:
                gpu = NvmlGpu.open(self._nvml, position, self._log_once)
            except GpuLostError:
                unnamed.append(position)
                continue
            except self._nvml.NVMLError as error:
                self._log_once(f"GPU {position} cannot be read: {error}")
                continue
            if (known := before.pop(gpu.uuid, None)) is not None:
                gpu.follow(known)
            found.append(gpu)
        taken = {each.index for each in found} | {each.index for each in before.values()}
        lost = list(before.values())
        if len(before) < len(unnamed):
            lost += [
                NvmlGpu.lost_one(self._nvml, position, self._log_once)
                for position in unnamed
                if position not in taken
            ]
        for each in lost:
            each.lose()
        return sorted(found + lost, key=lambda each: each.index)

    def _give_up(self, error: Exception) -> None:
        """Close the driver after it failed; its GPUs are remembered, and it is retried later."""
        self.error = _why(error)
        self._log_once(f"the NVIDIA driver stopped responding: {error!r}")
        self._shut()
        for each in self._gpus:
            each.lose(quietly=True)
        self._retry_at = self._clock() + RETRY_SECONDS
        self._check_for_lost_at = None

    def _shut(self) -> None:
        if self._nvml is not None:
            if self._events is not None:
                with contextlib.suppress(Exception):
                    self._nvml.nvmlEventSetFree(self._events)
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml, self._events = None, None

    def _note_lost(self) -> None:
        """Schedule the next try to find lost GPUs."""
        if not any(each.is_lost for each in self._gpus):
            self._lost_retry_seconds = LOST_RETRY_SECONDS
        elif self._check_for_lost_at is None:
            self._check_for_lost_at = self._clock() + self._lost_retry_seconds
            self._lost_retry_seconds = min(self._lost_retry_seconds * 2, LOST_RETRY_MAX_SECONDS)

    # --- critical errors, which the driver reports unasked ---------------------------------------

    def _listen(self) -> None:
        nvml = self._nvml
        try:
            self._events = nvml.nvmlEventSetCreate()
            for each in self._gpus:
                # Not every GPU has these events, and a lost one has none.
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(
                        each.handle, nvml.nvmlEventTypeXidCriticalError, self._events
                    )
        except nvml.NVMLError as error:
            log.debug("the driver reports no errors: %s", error)

    def _read_events(self) -> None:
        """Take what the driver has reported since the last sample, without waiting."""
        nvml = self._nvml
        for _ in range(MAX_EVENTS_PER_SAMPLE):
            if self._events is None:
                return
            try:
                event = nvml.nvmlEventSetWait(self._events, 0)
            except nvml.NVMLError_Timeout:
                return
            except nvml.NVMLError as error:
                log.debug("the driver no longer reports errors: %s", error)
                self._events = None
                return
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                self._take_xid(_address(event.device), int(event.eventData))

    def _take_xid(self, address: int | None, xid: int) -> None:
        for each in self._gpus:
            if _address(each.handle) == address:
                each.take_xid(xid, self._now())
                self._log_once(f"{each.label}: critical error, Xid {xid}")
                return

    def _log_once(self, message: str) -> None:
        """Log a message once per `LOG_INTERVAL_SECONDS`."""
        before = self._logged_at.get(message, -math.inf)
        if self._clock() - before >= LOG_INTERVAL_SECONDS:
            self._logged_at = (
                {**self._logged_at, message: self._clock()} if len(self._logged_at) < 100 else {}
            )
            log.info("%s", message)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value if handle is not None else None


def _why(error: Exception) -> Sentence | None:
    """What is wrong with the driver; None without an NVIDIA GPU."""
    try:
        import pynvml
    except ImportError:
        return None

    code = error_code(error)
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        # Library and kernel module differ until the instance is restarted.
        return sentence("gpu-driver-updated")
    if code == pynvml.NVML_ERROR_NO_PERMISSION:
        return sentence("gpu-driver-forbidden")
    absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    if code in absent:
        if not _has_nvidia_gpu():
            return None
        if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return sentence("gpu-driver-not-installed")
        return sentence("gpu-driver-not-loaded")
    return sentence("gpu-driver-failed", detail=f"{error}"[:400])


def _has_nvidia_gpu() -> bool:
    with contextlib.suppress(OSError):
        for device in PCI_DEVICES.iterdir():
            with contextlib.suppress(OSError):
                is_nvidia = (device / "vendor").read_text().strip() == NVIDIA_VENDOR
                if is_nvidia and (device / "class").read_text().startswith(DISPLAY_CLASS):
                    return True
    return False

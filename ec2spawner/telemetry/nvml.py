"""NVIDIA's GPUs through NVML: the driver as a whole. `nvml_gpu.py` reads one of its GPUs.

All of it happens in the sampling thread; nothing raises, and what is wrong is said once.
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
"""How often a machine without a working NVIDIA driver is asked again: a driver may load late."""

LOST_RETRY_SECONDS = 30.0
LOST_RETRY_MAX_SECONDS = 600.0
"""After how long a lost GPU is looked for again, twice as long each time. It means to open the
driver anew, and one that is in trouble shall not be kept busy with that."""

SAID_SECONDS = 3600.0
"""What has been logged is not logged again for so long."""

EVENTS_AT_ONCE = 16
"""A GPU that fails may report errors without end; the rest is heard with the next sample."""

PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASS = "0x03"
"""First byte of the PCI class of every GPU, with or without a display."""


class NvmlGpus:
    """NVML through `nvidia-ml-py`; without a driver or a GPU none, and the question again later.

    A GPU keeps its index as long as this lives: where one is lost, NVML counts the rest anew.
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
        self._ask_again_at = clock()
        self._lost_retry_seconds = LOST_RETRY_SECONDS
        self._check_for_lost_at: float | None = None
        self._said: dict[str, float] = {}
        self.error: Sentence | None = None

    def sample(self, user_cpu_percent: float) -> list[GpuSample]:
        """One sample per known GPU; all of them as lost while the driver fails."""
        try:
            if self._nvml is None and self._clock() >= self._ask_again_at:
                self._open()
            elif self._check_for_lost_at is not None and self._clock() >= self._check_for_lost_at:
                self._reopen()
            if self._nvml is not None:
                self._hear()
                samples = [each.sample(self._clock()) for each in self._gpus]
                self._note_lost()
                return samples
        except Exception as error:
            # Whatever it is that is wrong with the driver or its library, the rest is measured.
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
        self._ask_again_at = self._clock()

    # --- the driver --------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the driver and list its GPUs; those seen before are the same ones."""
        self._ask_again_at = self._clock() + RETRY_SECONDS
        # Eight thousand lines, which a machine without a GPU need not read before it serves.
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.error = _why(error)
            self._say(f"no NVIDIA GPU to be read: {error}")
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
                gpu = NvmlGpu.open(self._nvml, position, self._say)
            except GpuLostError:
                unnamed.append(position)
                continue
            except self._nvml.NVMLError as error:
                self._say(f"GPU {position} cannot be read: {error}")
                continue
            if (known := before.pop(gpu.uuid, None)) is not None:
                gpu.follow(known)
            found.append(gpu)
        taken = {each.index for each in found} | {each.index for each in before.values()}
        lost = list(before.values())
        if len(before) < len(unnamed):
            lost += [
                NvmlGpu.lost_one(self._nvml, position, self._say)
                for position in unnamed
                if position not in taken
            ]
        for each in lost:
            each.lose()
        return sorted(found + lost, key=lambda each: each.index)

    def _give_up(self, error: Exception) -> None:
        """The driver as a whole has left; its GPUs are remembered, and it is asked again later."""
        self.error = _why(error)
        self._say(f"the NVIDIA driver does not answer any more: {error!r}")
        self._shut()
        for each in self._gpus:
            each.lose(quietly=True)
        self._ask_again_at = self._clock() + RETRY_SECONDS
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
        """Plan when lost GPUs are looked for again."""
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

    def _hear(self) -> None:
        """Take what the driver has reported since the last sample, without waiting."""
        nvml = self._nvml
        for _ in range(EVENTS_AT_ONCE):
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
                self._say(f"{each.label}: critical error, Xid {xid}")
                return

    def _say(self, message: str) -> None:
        """Log a message when it is news, not at every sample."""
        before = self._said.get(message, -math.inf)
        if self._clock() - before >= SAID_SECONDS:
            self._said = {**self._said, message: self._clock()} if len(self._said) < 100 else {}
            log.info("%s", message)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value if handle is not None else None


def _why(error: Exception) -> Sentence | None:
    """What is wrong with the driver; None where there is none and none is needed."""
    try:
        import pynvml
    except ImportError:
        return None

    code = error_code(error)
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        # Its library and its kernel module differ until the instance is restarted.
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

"""A GPU that the instance has and its image's driver does not work with: it costs, and is no use.

The driver's open kernel modules, for example, do not support Volta. The PCI bus shows the GPU then,
and there is no `/dev/nvidia0`, or NVML finds none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from ..core.instances.gpu_drivers import Driver, KernelModules, branch, unsupported_gpus
from ..wire import Fault, ImageDriver
from .command import run
from .settings import Settings

log = logging.getLogger(__name__)

DRIVER_SECONDS: Final = 30.0
"""For the driver to load: at the first boot of an instance its disk is cold."""

PROBE_SECONDS: Final = 10.0
"""Timeout of one attempt to open the driver, and of `modinfo`."""

RETRY_SECONDS: Final = 2.0

NVIDIA: Final = "0x10de"
"""PCI vendor."""

GPU_CLASSES: Final = ("0x0300", "0x0302")
"""PCI classes, without the last byte: VGA controller, and 3D controller without a display."""

MAX_PCI_DEVICES: Final = 4096

_NO_MODULE: Final = 1
"""Exit status of `modinfo` for a module that the image does not have."""

_OPEN_LICENSE: Final = "MIT"
"""In the license of the open kernel modules, `Dual MIT/GPL`; the proprietary say `NVIDIA`."""

_GRID_DAEMON: Final = "nvidia-gridd"
"""Comes with NVIDIA's GRID driver only."""

_PROBE: Final = "import pynvml; pynvml.nvmlInit(); assert pynvml.nvmlDeviceGetCount()"


async def gpu_without_driver(settings: Settings, *, timeout: float = DRIVER_SECONDS) -> Fault:
    """What is wrong with the GPU's driver and what to do; no fault without an NVIDIA GPU.

    Waits up to `timeout` seconds for a driver that is still being loaded. The hub decides whether
    other instances of the type have the same fault: a slow driver and a dead GPU look alike here.
    Raises nothing.
    """
    try:
        bus, device = settings.pci_devices, settings.gpu_device
        gpus = await asyncio.to_thread(_nvidia_gpus, bus) if bus and device else 0
        if not gpus or settings.simulated_gpu or await _works(settings, timeout):
            return Fault()
        driver = await _image_driver()
    except Exception as error:
        # Only what is proven wrong may keep the instance from being assigned a lease.
        log.warning("the GPU's driver cannot be checked: %r", error)
        return Fault()
    log.error("%d NVIDIA GPUs on the PCI bus, and no driver works with them: %s", gpus, driver)
    return Fault(reason=_reason(driver)[:500], driver=driver)


def _nvidia_gpus(bus: Path) -> int:
    """How many NVIDIA GPUs the PCI bus shows. Blocks briefly."""
    found = 0
    with contextlib.suppress(OSError):
        for device, _ in zip(bus.iterdir(), range(MAX_PCI_DEVICES), strict=False):
            with contextlib.suppress(OSError):
                is_nvidia = (device / "vendor").read_text().strip() == NVIDIA
                found += is_nvidia and (device / "class").read_text().startswith(GPU_CLASSES)
    return found


async def _works(settings: Settings, timeout: float) -> bool:
    """Whether a driver has opened a GPU, or does so within `timeout` seconds."""
    assert settings.gpu_device is not None
    deadline = time.monotonic() + timeout
    while True:
        if await asyncio.to_thread(settings.gpu_device.exists):
            return True
        # The device file can be missing until a program first opens the driver, which NVML does.
        # A simulated instance must not find the GPU of the machine below.
        if settings.metadata_is_amazon and await _opens():
            return True
        if not settings.metadata_is_amazon or time.monotonic() >= deadline:
            return False
        await asyncio.sleep(RETRY_SECONDS)


async def _opens() -> bool:
    status, output = await run(sys.executable, "-P", "-c", _PROBE, seconds=PROBE_SECONDS)
    if status:
        log.info("NVML finds no GPU: %s", output.splitlines()[-1:])
    return status == 0


async def _image_driver() -> ImageDriver | None:
    """The driver that the image has, loaded or not; None where that cannot be read."""
    status, version = await run("modinfo", "-F", "version", "nvidia", seconds=PROBE_SECONDS)
    if status == _NO_MODULE:
        return ImageDriver()
    number = branch(version) if status == 0 else None
    if number is None:
        return None
    grid = await asyncio.to_thread(shutil.which, _GRID_DAEMON) is not None
    status, license_text = await run("modinfo", "-F", "license", "nvidia", seconds=PROBE_SECONDS)
    if status or not license_text:
        return ImageDriver(branch=number, grid=grid)
    modules: Literal["open", "proprietary"]
    modules = "open" if _OPEN_LICENSE in license_text else "proprietary"
    return ImageDriver(branch=number, modules=modules, grid=grid)


def _reason(found: ImageDriver | None) -> str:
    gpu = "This machine has an NVIDIA GPU"
    if found is None:
        return f"{gpu}, and no driver works with it. The GPU may be faulty."
    if found.branch is None:
        return f"{gpu}, and its image has no NVIDIA driver. Use an image with one."
    modules = KernelModules(found.modules) if found.modules else None
    driver = Driver(found.branch, modules, found.grid)
    others = unsupported_gpus(driver)
    known = f" This driver does not support {_list(others)}." if others else ""
    return (
        f"{gpu}, and the driver of its image ({driver}) does not work with it.{known} "
        "With a GPU that it supports, the GPU may be faulty; otherwise use an image whose driver "
        "supports the GPU, or another instance type."
    )


def _list(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

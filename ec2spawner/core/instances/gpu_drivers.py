"""Which NVIDIA driver supports which GPU. Pure.

A driver is known by its *branch*, the first number of its version (595 of 595.91.07), and by the
flavor of its kernel modules: NVIDIA ships open and proprietary ones. A GPU that its image's driver
does not support is there, costs money, and cannot be used.

Sources, of NVIDIA:

- last branches: "CUDA Toolkit, Driver, and Architecture Matrix",
  docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html;
- first branches: the driver of the first CUDA toolkit with that architecture, from the same table
  and from the table of drivers in the CUDA toolkit's release notes;
- kernel modules: "Kernel Modules" of the driver installation guide (open ones need Turing or
  newer), and "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules" (2024-07-17: on
  Blackwell the proprietary ones are unsupported).

Of AWS:

- shares of a GPU: "NVIDIA drivers for your Amazon EC2 instance", table of drivers by instance type
  (G6f and Gr6f have NVIDIA's GRID driver only, from vGPU 18.4 on, which is branch 570);
- G7: "EKS-optimized accelerated AMIs" in the Amazon EKS user guide (branch 595 or newer).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final


class KernelModules(StrEnum):
    """The two flavors of NVIDIA's kernel modules."""

    OPEN = "open"
    PROPRIETARY = "proprietary"


class Architecture(StrEnum):
    """NVIDIA's name of a generation of GPUs."""

    MAXWELL = "Maxwell"
    VOLTA = "Volta"
    TURING = "Turing"
    AMPERE = "Ampere"
    ADA = "Ada Lovelace"
    HOPPER = "Hopper"
    BLACKWELL = "Blackwell"


@dataclass(frozen=True, slots=True)
class DriverSupport:
    """The drivers that support one architecture."""

    first_branch: int
    last_branch: int | None
    """None while NVIDIA has announced no end."""
    modules: tuple[KernelModules, ...]

    def includes(self, driver: Driver) -> bool:
        """Whether this driver supports the architecture, as far as is known of it."""
        if driver.modules is not None and driver.modules not in self.modules:
            return False
        if driver.branch is None:
            return True
        is_old_enough = self.last_branch is None or driver.branch <= self.last_branch
        return self.first_branch <= driver.branch and is_old_enough


_PROPRIETARY: Final = (KernelModules.PROPRIETARY,)
_EITHER: Final = (KernelModules.OPEN, KernelModules.PROPRIETARY)
_OPEN: Final = (KernelModules.OPEN,)

DRIVER_SUPPORT: Final[Mapping[Architecture, DriverSupport]] = MappingProxyType(
    {
        Architecture.MAXWELL: DriverSupport(340, 580, _PROPRIETARY),
        Architecture.VOLTA: DriverSupport(384, 580, _PROPRIETARY),
        Architecture.TURING: DriverSupport(410, None, _EITHER),
        Architecture.AMPERE: DriverSupport(450, None, _EITHER),
        Architecture.ADA: DriverSupport(520, None, _EITHER),
        Architecture.HOPPER: DriverSupport(520, None, _EITHER),
        Architecture.BLACKWELL: DriverSupport(570, None, _OPEN),
    }
)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        "M60": Architecture.MAXWELL,
        "V100": Architecture.VOLTA,
        "T4": Architecture.TURING,
        "T4g": Architecture.TURING,
        "A10G": Architecture.AMPERE,
        "A100": Architecture.AMPERE,
        "L4": Architecture.ADA,
        "L40S": Architecture.ADA,
        "H100": Architecture.HOPPER,
        "H200": Architecture.HOPPER,
        "B200": Architecture.BLACKWELL,
        "B300": Architecture.BLACKWELL,
        "GB200": Architecture.BLACKWELL,
        "GB300": Architecture.BLACKWELL,
        "RTX PRO 4500": Architecture.BLACKWELL,
        "RTX PRO Server 6000": Architecture.BLACKWELL,
    }
)
"""By the name that DescribeInstanceTypes gives a GPU."""

_LATER: Final[Mapping[str, int]] = MappingProxyType({"RTX PRO 4500": 595})
"""First branches of GPUs that came later than the first of their architecture."""

FIRST_GRID_BRANCH: Final = 570
"""Of the GRID drivers for shares of a GPU."""

SHARES: Final = "shares of a GPU (G6f, Gr6f)"


@dataclass(frozen=True, slots=True)
class Driver:
    """An NVIDIA driver as an image has it."""

    branch: int | None
    """None where it is not known, as is `modules`."""
    modules: KernelModules | None = None
    grid: bool = False
    """Whether it is NVIDIA's GRID (vGPU) driver, which supports shares of a GPU too."""

    @property
    def is_known(self) -> bool:
        """Whether anything is: only then it is certain what it does not support."""
        return self.branch is not None or self.modules is not None

    def __str__(self) -> str:
        words = [f"branch {self.branch or 'unknown'}"]
        words += [f"{self.modules} kernel modules"] if self.modules else []
        words += ["GRID"] if self.grid else []
        return ", ".join(words)


def branch(version: str) -> int | None:
    """The branch of a driver's version such as `595.91.07`; None if it is not a version."""
    found = re.match(r"\s*(\d{3,4})(?:\.\d+){1,2}\b", version[:40])
    return int(found[1]) if found else None


@lru_cache(maxsize=64)
def driver_of_image(version: str, image_name: str) -> Driver:
    """The driver of an image, as far as its name and what it says of the driver's version go.

    AWS writes the flavor of the modules into the names of its images, our recipe for images after
    the version: `595.91.07-open` or `-proprietary`. A GRID driver says so there, too:
    `570.172.08-proprietary-grid`, or as the names of NVIDIA's packages do, `570.172.08-grid`.
    """
    name, suffixes = image_name.lower(), version.lower().split("-")[1:]
    modules = None
    if KernelModules.OPEN in suffixes or "oss nvidia" in name:
        modules = KernelModules.OPEN
    elif KernelModules.PROPRIETARY in suffixes or "proprietary nvidia" in name:
        modules = KernelModules.PROPRIETARY
    return Driver(branch(version), modules, "grid" in version.lower())


@lru_cache(maxsize=1024)  # each pass asks for each offer
def unsupported(ec2_gpu: str, driver: Driver, partition: float = 1.0) -> str:
    """Why this driver does not support this GPU, and which one does, as a sentence.

    Empty if it does, and for a GPU that is not in the table. `ec2_gpu` is the GPU's name as
    DescribeInstanceTypes gives it, such as `V100`; `partition` below 1 is a share of one.
    """
    architecture = ARCHITECTURES.get(ec2_gpu)
    if architecture is None:
        return ""
    if 0 < partition < 1:
        return "" if _supports_shares(driver) else _no_share(ec2_gpu, driver)
    support = DRIVER_SUPPORT[architecture]
    first = _LATER.get(ec2_gpu, support.first_branch)
    support = replace(support, first_branch=first)
    if support.includes(driver):
        return ""
    return (
        f"NVIDIA's driver ({driver}) does not support the {ec2_gpu} ({architecture}): "
        f"it needs {_needed(support)}"
    )


def unsupported_gpus(driver: Driver) -> tuple[str, ...]:
    """What of EC2's GPUs this driver does not support: names as EC2 has them, and `SHARES`."""
    whole = tuple(gpu for gpu in ARCHITECTURES if unsupported(gpu, driver))
    return whole if _supports_shares(driver) else (*whole, SHARES)


def _supports_shares(driver: Driver) -> bool:
    return driver.grid and (driver.branch is None or driver.branch >= FIRST_GRID_BRANCH)


def _no_share(ec2_gpu: str, driver: Driver) -> str:
    return (
        f"NVIDIA's driver ({driver}) does not support a share of an {ec2_gpu}: it needs the GRID "
        f"driver, branch {FIRST_GRID_BRANCH} or newer, which no Deep Learning AMI has"
    )


def _needed(support: DriverSupport) -> str:
    """The drivers that support an architecture, in words."""
    if support.last_branch is not None:
        branches = f"branch {support.last_branch} or older"
    else:
        branches = f"branch {support.first_branch} or newer"
    if len(support.modules) > 1:
        return branches
    return f"{branches} with {support.modules[0]} kernel modules"

"""The PCI bus of a simulated instance, as folders like those below `/sys/bus/pci/devices`."""

from __future__ import annotations

from pathlib import Path

NVIDIA = "0x10de"
DISPLAY_CONTROLLER = "0x030200"
"""PCI class of EC2's GPUs: a 3D controller without a display."""

OTHERS = {"0000:00:04.0": ("0x1d0f", "0x010802"), "0000:00:05.0": ("0x1d0f", "0x020000")}
"""Amazon's disk and network controllers: address -> vendor and class."""


def show(gpu_count: int, bus: Path) -> None:
    """Show the instance this many NVIDIA GPUs, among its other devices."""
    addresses = (f"0000:{0x10 + number:02x}:1e.0" for number in range(gpu_count))
    gpus = dict.fromkeys(addresses, (NVIDIA, DISPLAY_CONTROLLER))
    for address, (vendor, class_code) in (OTHERS | gpus).items():
        device = bus / address
        device.mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{class_code}\n")

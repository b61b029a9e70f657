"""A GPU on the PCI bus that no driver works with: `ec2spawner.agent.gpu_driver`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.agent import gpu_driver
from ec2spawner.agent.gpu_driver import gpu_without_driver
from ec2spawner.agent.settings import Settings
from ec2spawner.embedded.runtime import pci_bus
from ec2spawner.wire import Fault, ImageDriver
from tests.fake_nvml import FakeNvml

MODINFO = """#!/bin/sh
case "$2" in version) echo "{version}" ;; license) echo "{license}" ;; esac
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A real instance with one GPU, whose image has the open driver of branch 595."""
    pci_bus.show(1, tmp_path / "pci")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))  # no NVML
    modinfo(tmp_path, "595.91.07", "Dual MIT/GPL")
    environment = {
        "EC2SPAWNER_NOTEBOOK_USER": f"{os.getuid()}:{os.getgid()}",
        "EC2SPAWNER_NOTEBOOK_HOME": str(tmp_path),
        "EC2SPAWNER_PCI_DEVICES": str(tmp_path / "pci"),
        "EC2SPAWNER_GPU_DEVICE": str(tmp_path / "nvidia0"),
    }
    return Settings.from_environment("http://hub/hub/api", environment)


def modinfo(folder: Path, version: str, license_text: str) -> None:
    program = folder / "bin" / "modinfo"
    program.write_text(MODINFO.format(version=version, license=license_text))
    program.chmod(0o755)


async def test_the_reason_names_driver_gpus_and_the_way_out(settings: Settings) -> None:
    fault = await gpu_without_driver(settings, timeout=0)
    assert "branch 595, open kernel modules" in fault.reason
    assert "V100" in fault.reason
    assert "an image whose driver supports" in fault.reason
    assert fault.driver == ImageDriver(branch=595, modules="open")


async def test_proprietary_and_absent_drivers_are_distinguished(
    settings: Settings, tmp_path: Path
) -> None:
    modinfo(tmp_path, "550.163.01", "NVIDIA")
    fault = await gpu_without_driver(settings, timeout=0)
    assert "branch 550, proprietary kernel modules" in fault.reason
    assert "B200" in fault.reason
    assert "V100" not in fault.reason
    assert fault.driver == ImageDriver(branch=550, modules="proprietary")
    (tmp_path / "bin" / "modinfo").write_text("#!/bin/sh\nexit 1\n")
    fault = await gpu_without_driver(settings, timeout=0)
    assert "no NVIDIA driver" in fault.reason
    assert fault.driver == ImageDriver()


async def test_a_grid_driver_is_known_by_its_daemon(settings: Settings, tmp_path: Path) -> None:
    fault = await gpu_without_driver(settings, timeout=0)
    assert "shares of a GPU" in fault.reason
    (tmp_path / "bin" / "nvidia-gridd").symlink_to(tmp_path / "bin" / "modinfo")
    fault = await gpu_without_driver(settings, timeout=0)
    assert "shares of a GPU" not in fault.reason
    assert fault.driver == ImageDriver(branch=595, modules="open", grid=True)


@pytest.mark.parametrize("broken", ["exec sleep 60", "exit 127", "echo nonsense"])
async def test_an_unreadable_driver_is_not_an_absent_one(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The disk of a new instance is cold: `modinfo` may take long, as the driver itself."""
    monkeypatch.setattr(gpu_driver, "PROBE_SECONDS", 0.2)
    (tmp_path / "bin" / "modinfo").write_text(f"#!/bin/sh\n{broken}\n")
    fault = await gpu_without_driver(settings, timeout=0)
    assert "may be faulty" in fault.reason
    assert fault.driver is None


async def test_a_gpu_that_works_is_no_fault(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert await gpu_without_driver(settings, timeout=0) == Fault()


async def test_nvml_opens_a_driver_whose_device_file_is_not_there_yet(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(tmp_path)
    nvml.say("gpu 0 memory 16384")
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    assert await gpu_without_driver(settings, timeout=0) == Fault()


async def test_without_an_nvidia_gpu_nothing_is_checked(settings: Settings, tmp_path: Path) -> None:
    pci_bus.show(0, tmp_path / "cpu")
    for bus in (tmp_path / "cpu", tmp_path / "missing", None):
        assert await gpu_without_driver(replace(settings, pci_devices=bus), timeout=0) == Fault()
    assert await gpu_without_driver(replace(settings, gpu_device=None), timeout=0) == Fault()
    assert await gpu_without_driver(replace(settings, simulated_gpu="{}"), timeout=0) == Fault()

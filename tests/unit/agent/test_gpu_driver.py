"""A GPU on the PCI bus that no driver works with: `ec2spawner.agent.gpu_driver`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.agent.gpu_driver import gpu_without_driver
from ec2spawner.agent.settings import Settings
from ec2spawner.embedded.runtime import pci_bus
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
    reason = await gpu_without_driver(settings, timeout=0)
    assert "branch 595, open kernel modules" in reason
    assert "V100" in reason
    assert "Use an image" in reason
    assert len(reason) <= 500


async def test_proprietary_and_absent_drivers_are_distinguished(
    settings: Settings, tmp_path: Path
) -> None:
    modinfo(tmp_path, "550.163.01", "NVIDIA")
    reason = await gpu_without_driver(settings, timeout=0)
    assert "branch 550, proprietary kernel modules" in reason
    assert "B200" in reason
    assert "V100" not in reason
    modinfo(tmp_path, "", "")
    assert "no NVIDIA driver" in await gpu_without_driver(settings, timeout=0)


async def test_a_gpu_that_works_is_no_fault(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert await gpu_without_driver(settings, timeout=0) == ""


async def test_nvml_opens_a_driver_whose_device_file_is_not_there_yet(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(tmp_path)
    nvml.say("gpu 0 memory 16384")
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    assert await gpu_without_driver(settings, timeout=0) == ""


async def test_without_an_nvidia_gpu_nothing_is_checked(settings: Settings, tmp_path: Path) -> None:
    pci_bus.show(0, tmp_path / "cpu")
    for bus in (tmp_path / "cpu", tmp_path / "missing", None):
        assert await gpu_without_driver(replace(settings, pci_devices=bus), timeout=0) == ""
    assert await gpu_without_driver(replace(settings, gpu_device=None), timeout=0) == ""
    assert await gpu_without_driver(replace(settings, simulated_gpu="{}"), timeout=0) == ""

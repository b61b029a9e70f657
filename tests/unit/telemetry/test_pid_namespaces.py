"""In a container, a driver may name processes by numbers that are others' there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ec2spawner.telemetry import namespaces
from ec2spawner.telemetry.gpu_source import GpuProcess
from ec2spawner.telemetry.namespaces import HOST_NAMESPACE, Namespace
from ec2spawner.telemetry.processes import ProcessTable


def place(folder: Path, text: str) -> Path:
    link = folder / "pid"
    link.symlink_to(text)
    return link


def test_a_process_is_counted_only_if_it_has_the_gpu_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = ProcessTable().read()
    given = GpuProcess(os.getpid(), 0, 100.0, 50.0)
    inside = Namespace(place(tmp_path, "pid:[4026532001]"))
    assert inside.translated(given, processes) == GpuProcess(0, 0, 100.0, 50.0)
    # The driver means the process that has the device open.
    device = tmp_path / "nvidia0"
    monkeypatch.setattr(namespaces, "DEVICES", str(device))
    with device.open("w"):
        assert Namespace(tmp_path / "pid").translated(given, processes) == given
    unknown = GpuProcess(2**22 + 5, 0)
    assert inside.translated(unknown, processes) == unknown


def test_outside_a_container_the_drivers_ids_are_used(tmp_path: Path) -> None:
    processes = ProcessTable().read()
    given = GpuProcess(os.getpid(), 0)
    assert Namespace(place(tmp_path, HOST_NAMESPACE)).translated(given, processes) == given
    assert Namespace(tmp_path / "nothing").translated(given, processes) == given

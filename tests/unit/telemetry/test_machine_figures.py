"""Disk and network of the machine: what cannot be read is unknown, and holds up nothing."""

from __future__ import annotations

import os
import threading
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ec2spawner.telemetry import machine
from ec2spawner.telemetry.machine import MIB, SPACE_LIMIT_SECONDS, DiskSpace, Machine, Rates
from ec2spawner.wire import Telemetry


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_figures_of_this_host_form_valid_telemetry(tmp_path: Path) -> None:
    clock = Clock()
    here = Machine(tmp_path, clock)
    here.figures()
    until(lambda: here.figures()["disk_total_mib"])
    clock.now += 5
    found = Telemetry.model_validate({"at": "2026-11-20T14:00:00Z", **here.figures()})
    assert found.cpu_count == os.cpu_count()
    assert 0 < (found.memory_used_mib or 0) < (found.memory_total_mib or 0)
    assert 0 < (found.disk_used_mib or 0) <= (found.disk_total_mib or 0)


def test_a_hanging_file_system_blocks_only_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, answers = Clock(), threading.Event()
    space = DiskSpace(tmp_path, clock)
    space.scan()
    until(lambda: space.scan()[1])
    asked = []
    real = os.statvfs

    def hangs(path: Path) -> os.statvfs_result:
        asked.append(path)
        answers.wait(30)
        return real(path)

    monkeypatch.setattr(os, "statvfs", hangs)
    for _ in range(20):
        clock.now += 5
        space.scan()
    assert not answers.is_set(), "nothing waited for it"
    assert len(asked) == 1
    assert clock.now > 100 + SPACE_LIMIT_SECONDS
    assert space.scan() == (None, None), "what it said long ago holds no more"
    answers.set()
    until(lambda: space.scan()[1])


def test_an_unlimited_file_system_has_no_total(monkeypatch: pytest.MonkeyPatch) -> None:
    efs = SimpleNamespace(f_blocks=2**43, f_bfree=2**43 - 1024, f_bavail=2**43 - 1024, f_frsize=MIB)
    monkeypatch.setattr(os, "statvfs", lambda path: efs)
    space = DiskSpace(Path("/home"), Clock())
    space.scan()
    until(lambda: space.scan()[0])
    assert space.scan() == (1024, None)


Disk = namedtuple("Disk", "read_bytes write_bytes")
Nic = namedtuple("Nic", "bytes_recv bytes_sent")


def test_rates_exclude_partitions_and_are_unknown_when_a_counter_went_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    counters = {"disk": 0, "nic": 0}
    monkeypatch.setattr(machine, "_disks", lambda: {"nvme0n1"})
    monkeypatch.setattr(machine, "_interfaces", lambda: {"ens5"})
    monkeypatch.setattr(
        psutil,
        "disk_io_counters",
        lambda **_: {
            "nvme0n1": Disk(counters["disk"], 2 * counters["disk"]),
            "nvme0n1p1": Disk(counters["disk"], counters["disk"]),
        },
    )
    monkeypatch.setattr(
        psutil,
        "net_io_counters",
        lambda **_: {"ens5": Nic(counters["nic"], 0), "lo": Nic(10**12, 10**12)},
    )
    rates = Rates(clock)
    assert rates.scan() == {}
    clock.now += 2
    counters |= {"disk": 8 * MIB, "nic": MIB}
    assert rates.scan() == {
        "disk_read_mib_per_s": 4,
        "disk_write_mib_per_s": 8,
        "network_in_mib_per_s": 0.5,
        "network_out_mib_per_s": 0,
    }
    clock.now += 2
    counters |= {"disk": 0}
    assert rates.scan()["disk_read_mib_per_s"] is None


def test_malformed_proc_files_are_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("an unknown line of /proc")

    for name in ("cpu_percent", "virtual_memory", "disk_io_counters", "net_io_counters"):
        monkeypatch.setattr(psutil, name, breaks)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    figures = Machine(tmp_path / "nowhere").figures()
    assert set(figures.values()) == {None}
    assert Telemetry.model_validate({"at": "2026-11-20T14:00:00Z", **figures}).gpus == []

"""How much data waits in the page cache, and its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.agent.mounts.dirty_pages import (
    MAX_DIRTY_BYTES,
    bound_dirty_pages,
    dirty_bytes,
)

GIB = 2**30


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine with 192 GiB of memory and Linux' own settings."""
    (tmp_path / "sys" / "vm").mkdir(parents=True)
    set_memory(tmp_path, 192)
    settings = {"dirty_bytes": 0, "dirty_ratio": 20, "dirty_background_bytes": 0}
    for name, value in settings.items():
        (tmp_path / "sys" / "vm" / name).write_text(f"{value}\n")
    return tmp_path


def set_memory(proc: Path, gib: int) -> None:
    lines = {"MemTotal": gib * GIB // 1024, "Dirty": 2048, "Writeback": 1024}
    text = "".join(f"{name}:{kib:>12} kB\n" for name, kib in lines.items())
    (proc / "meminfo").write_text(text + "HugePages_Total:       0\n")


def bound(proc: Path) -> int:
    return int((proc / "sys" / "vm" / "dirty_bytes").read_text())


def test_a_large_machine_is_bounded(proc: Path) -> None:
    bound_dirty_pages(proc)
    assert bound(proc) == MAX_DIRTY_BYTES == GIB
    assert int((proc / "sys" / "vm" / "dirty_background_bytes").read_text()) < GIB


def test_a_lower_bound_stays(proc: Path) -> None:
    (proc / "sys" / "vm" / "dirty_bytes").write_text("1000000\n")
    bound_dirty_pages(proc)
    assert bound(proc) == 1_000_000


def test_a_higher_bound_is_lowered(proc: Path) -> None:
    (proc / "sys" / "vm" / "dirty_bytes").write_text(f"{4 * GIB}\n")
    bound_dirty_pages(proc)
    assert bound(proc) == GIB


def test_a_small_machine_keeps_its_share(proc: Path) -> None:
    set_memory(proc, 4)
    bound_dirty_pages(proc)
    assert bound(proc) == 0


def test_a_machine_without_these_settings_is_not_changed(tmp_path: Path) -> None:
    bound_dirty_pages(tmp_path)
    assert dirty_bytes(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_dirty_pages_and_those_on_their_way_count(proc: Path) -> None:
    assert dirty_bytes(proc) == 3 * 2**20


def test_this_machine_says_it() -> None:
    assert dirty_bytes() >= 0

"""The file of a result in the home."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.runs import result_file
from ec2spawner.runs.result_file import STALE_SECONDS, write_result


def names(home: Path) -> list[str]:
    return sorted(each.name for each in (home / "runs").iterdir())


def test_a_result_is_written_once(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        file = write_result(tmp_path, "work/train.ipynb", 12, b"{}")
    finally:
        os.umask(old)
    assert file == tmp_path / "runs" / "train-12.ipynb"
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"{}", 0o640)
    before = file.stat()
    assert write_result(tmp_path, "work/train.ipynb", 12, b"{}") == file
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(tmp_path) == ["train-12.ipynb"]
    assert write_result(tmp_path, "train.py", 3, b"").name == "train-3.log"


def test_a_file_of_the_user_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "train-12.ipynb").write_text("mine")
    (tmp_path / "runs" / "train-12-1.ipynb").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs" / "train-12-2.ipynb").mkdir()
    for _ in range(2):
        assert write_result(tmp_path, "train.ipynb", 12, b"{}").name == "train-12-3.ipynb"
    assert (tmp_path / "runs" / "train-12.ipynb").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert len(names(tmp_path)) == 4


def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = result_file._write_part

    def slowly(folder: Path, content: bytes) -> Path:
        (folder / "train-12.ipynb").write_text("mine")
        return write(folder, content)

    monkeypatch.setattr(result_file, "_write_part", slowly)
    assert write_result(tmp_path, "train.ipynb", 12, b"{}").name == "train-12-1.ipynb"
    assert names(tmp_path) == ["train-12-1.ipynb", "train-12.ipynb"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_has_the_result_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_links(*_: Any) -> None:
        raise OSError(code, "no links")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    assert write_result(tmp_path, "train.ipynb", 12, b"{}").read_bytes() == b"{}"
    assert names(tmp_path) == ["train-12.ipynb"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_result(tmp_path, "train.ipynb", 12, b"{}")
    assert names(tmp_path) == []


def test_parts_of_a_killed_server_are_removed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    stale, young, other = (
        tmp_path / "runs" / each for each in (".ec2spawner-a.part", ".ec2spawner-b.part", "c.part")
    )
    for file in (stale, young, other):
        file.write_text("{")
    past = stale.stat().st_mtime - STALE_SECONDS - 60
    for file in (stale, other):
        os.utime(file, (past, past))
    write_result(tmp_path, "train.ipynb", 12, b"{}")
    assert names(tmp_path) == [".ec2spawner-b.part", "c.part", "train-12.ipynb"]


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(FileExistsError):
        write_result(tmp_path, "train.ipynb", 12, b"{}")

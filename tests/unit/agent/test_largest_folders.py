"""The largest folders of a full home."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2spawner.agent.mounts import largest_folders
from ec2spawner.agent.mounts.largest_folders import MAX_PATH_CHARS, largest, measure
from tests.small_disk import mounted

LONG = 60.0


def by_bytes(home: Path) -> list[str]:
    total, is_complete = measure(home, LONG)
    assert is_complete
    return [each.path for each in largest(total, lambda each: each.size_bytes)]


def file(place: Path, kibibytes: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"x" * 1024 * kibibytes)


def test_the_largest_come_first_and_the_small_not_at_all(tmp_path: Path) -> None:
    file(tmp_path / "data" / "a" / "b" / "c", 4000)
    file(tmp_path / "data" / "z", 3000)
    file(tmp_path / "core.1234", 2000)
    file(tmp_path / ".cache" / "pip" / "http" / "a", 1000)
    file(tmp_path / ".cache" / "other", 40)
    file(tmp_path / "notes", 4)
    assert by_bytes(tmp_path) == ["~/data", "~/core.1234", "~/.cache/pip"]


def test_files_are_counted_where_inodes_lack(tmp_path: Path) -> None:
    file(tmp_path / "one", 4000)
    for number in range(50):
        file(tmp_path / "many" / str(number), 0)
    total, _ = measure(tmp_path, LONG)
    assert [each.path for each in largest(total, lambda each: each.files)] == ["~/many"]
    assert total.files == 52


def test_where_no_folder_stands_out_the_home_is_named(tmp_path: Path) -> None:
    for number in range(50):
        file(tmp_path / str(number), 0)
    total, _ = measure(tmp_path, LONG)
    assert largest(total, lambda each: each.files) == [total]
    assert (total.path, total.files) == ("~", 50)


def test_neither_links_nor_other_disks_are_followed(tmp_path: Path) -> None:
    file(tmp_path / "elsewhere" / "big", 4000)
    home = tmp_path / "home"
    file(home / "own" / "file", 100)
    os.link(home / "own" / "file", home / "own" / "same file")
    (home / "link").symlink_to(tmp_path / "elsewhere")
    (home / "disk").mkdir()
    with mounted(home / "disk"):
        file(home / "disk" / "big", 500)
        total, _ = measure(home, LONG)
    assert set(total.below) == {"own"}
    assert 100 * 1024 <= total.size_bytes < 200 * 1024, "what has two names is counted once"


def test_only_folders_and_large_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they take in memory is bounded, also in a home of millions of files."""
    monkeypatch.setattr(largest_folders, "MAX_BELOW", 3)
    file(tmp_path / "large", 2000)
    file(tmp_path / "small", 4)
    for number in range(5):
        file(tmp_path / str(number) / "file", 4)
    total, _ = measure(tmp_path, LONG)
    assert len(total.below) == 3
    assert "small" not in total.below
    assert total.files == 12


def test_a_home_that_is_a_link_is_measured(tmp_path: Path) -> None:
    file(tmp_path / "volume" / "data" / "a", 100)
    (tmp_path / "home").symlink_to("volume")
    assert by_bytes(tmp_path / "home") == ["~/data"]


def test_a_name_is_bounded_and_always_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff" + b"n" * 250)).mkdir()
    [path] = by_bytes(tmp_path)
    assert path.startswith("~/\N{REPLACEMENT CHARACTER}nnn")
    assert len(path) == MAX_PATH_CHARS


def test_what_was_measured_in_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Level by level: a deep folder does not keep the others from being seen."""
    for name in ("a", "b", "c"):
        file(tmp_path / name / "x" / "y" / "z", 100)
    clock = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    total, is_complete = measure(tmp_path, 5)
    assert not is_complete
    assert set(total.below) == {"a", "b", "c"}
    assert total.files < 12


def test_a_folder_that_is_replaced_by_a_link_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is root, and the user's programs run."""
    file(tmp_path / "elsewhere" / "secret", 100)
    home = tmp_path / "home"
    file(home / "a" / "b", 1)
    entries = largest_folders._entries

    def replaced(folder: str) -> Iterator[tuple[str, os.stat_result]]:
        yield from list(entries(folder))
        if folder == str(home):
            shutil.rmtree(home / "a")
            (home / "a").symlink_to(tmp_path / "elsewhere")

    monkeypatch.setattr(largest_folders, "_entries", replaced)
    total, is_complete = measure(home, LONG)
    assert is_complete
    assert total.files == 1

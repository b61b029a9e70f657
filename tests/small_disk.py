"""A small file system of its own, which a test fills: with bytes or with files."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, *, mebibytes: int = 1, inodes: int = 1000) -> Iterator[Path]:
    """`folder` as a file system of this size; without root the test is skipped, and says so."""
    options = f"size={mebibytes}m,nr_inodes={inodes}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root: {made.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def use_up_bytes(folder: Path) -> None:
    """Take the last free byte for a file in `folder`."""
    with (folder / "big").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(65536)):
            pass


def use_up_inodes(folder: Path) -> None:
    """Take the last free inode for empty files in `folder`."""
    with contextlib.suppress(OSError):
        for number in range(100_000):
            (folder / str(number)).touch()

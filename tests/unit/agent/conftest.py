from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A blank block device of 64 MiB; all its mounts are undone."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 * 2**20)
    made = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root and loop devices: {made.stderr}")
    device = made.stdout.strip()
    yield Path(device)
    subprocess.run(["umount", "--all-targets", device], capture_output=True, check=False)
    subprocess.run(["losetup", "--detach", device], check=True)

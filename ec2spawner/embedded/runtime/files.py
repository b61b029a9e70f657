"""Directories of volumes, snapshots and instances: copied, deleted. Everything here blocks."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
from pathlib import Path

log = logging.getLogger(__name__)


def remove_trees(*directories: Path) -> None:
    """Delete directories with everything in them; one that does not exist is no error."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def copy_tree(source: Path, target: Path) -> int:
    """Copy everything as it is, owners and links too; returns the bytes of the files.

    A file that is deleted while it is copied is missing: a snapshot of a volume in use is no more
    consistent than the files are. A `source` that is no directory makes an empty `target`.
    """
    target.mkdir(mode=0o700)
    if source.is_dir():
        copied = subprocess.run(
            ["cp", "--archive", f"{source}/.", str(target)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if copied.returncode:
            log.warning("copying %s: %s", source, copied.stderr.decode(errors="replace")[-300:])
    files = (Path(parent, name) for parent, _, names in os.walk(target) for name in names)
    return sum(os.lstat(file).st_size for file in files)


def tail(path: Path, size: int) -> bytes:
    """The last `size` bytes of a file; empty if it does not exist."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - size))
        return file.read()
    return b""

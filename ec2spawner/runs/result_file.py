"""The file of a run's result in the home: there completely or not at all, and over no other."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from .submission import result_path

MAX_NAMES: Final = 100
"""Tried for a result whose name the user has given to other files."""

PART: Final = ".ec2spawner-{}.part"

STALE_SECONDS: Final = 3600.0
"""A part this old is of a server that was killed while it wrote."""

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links answer, as those of buckets do."""


def write_result(home: Path, path: str, number: int, content: bytes) -> Path:
    """Write the result of the run of `path`, unless it is there already; the file that has it.

    A file of another content keeps its name: the result's gets a suffix then. Raises `OSError`.
    """
    first = home / result_path(path, number)
    first.parent.mkdir(exist_ok=True)
    _remove_stale_parts(first.parent)
    part: Path | None = None
    try:
        for target in _names(first):
            if os.path.lexists(target):
                if _has(target, content):
                    return target
                continue
            part = part or _write_part(first.parent, content)
            with suppress(FileExistsError):  # made by another server of the user meanwhile
                _publish(part, target)
                _sync(first.parent)
                return target
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    raise FileExistsError(
        errno.EEXIST, f"{MAX_NAMES} other files have the names of this result", str(first)
    )


def _names(first: Path) -> Iterator[Path]:
    yield first
    for suffix in range(1, MAX_NAMES):
        yield first.with_name(f"{first.stem}-{suffix}{first.suffix}")


def _has(file: Path, content: bytes) -> bool:
    try:
        is_as_long = file.is_file() and file.stat().st_size == len(content)
        return is_as_long and file.read_bytes() == content
    except OSError:
        return False  # a file that cannot be read is not ours


def _write_part(folder: Path, content: bytes) -> Path:
    """With the mode and the owner of any file that the user makes."""
    part = folder / PART.format(secrets.token_hex(8))
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def _publish(part: Path, target: Path) -> None:
    """Give the part its name. Raises `FileExistsError` where the name is taken."""
    try:
        target.hardlink_to(part)  # unlike a rename it replaces nothing
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "is there", str(target)) from error
        part.rename(target)


def _remove_stale_parts(folder: Path) -> None:
    for part in folder.glob(PART.format("*")):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()


def _sync(folder: Path) -> None:
    """What was made in this folder is on the disk; some file systems do so by themselves."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

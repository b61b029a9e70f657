"""Files of sleep: written in one step, and read only where no other user could write them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MANIFEST: Final = "manifest.json"
JOURNAL: Final = "journal.jsonl"
TEMPORARY: Final = ".saving"
"""How the name of a file ends while it is written."""


class NotOurs(Exception):
    """This folder or file is not safe to load from: why."""


def check(folder: Path) -> None:
    """Raise NotOurs unless this user alone can write here, and in the folders of sleep above."""
    for each in (folder, *of_sleep(folder)):
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotOurs(f"{each} is not a folder")
        if found.st_uid != os.geteuid():
            raise NotOurs(f"{each} belongs to another user")
        if found.st_mode & 0o022:
            raise NotOurs(f"{each} can be written by other users")


def open_ours(path: Path) -> int:
    """A file descriptor to read this file. Raises NotOurs, OSError."""
    # Without O_NONBLOCK, opening a FIFO would wait for its writer.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        why = "is not a regular file"
    elif found.st_uid != os.geteuid():
        why = "belongs to another user"
    elif found.st_mode & 0o022:
        why = "can be written by other users"
    else:
        return number
    os.close(number)
    raise NotOurs(f"{path.name} {why}")


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file in one step: it is there completely, or as it was."""
    temporary = path.with_name(path.name + TEMPORARY)
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(folder: Path) -> None:
    """What was renamed in this folder is on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def of_sleep(folder: Path) -> list[Path]:
    """The folders of sleep from this one upwards; itself alone where it is elsewhere."""
    above = [folder, *folder.parents][:4]
    names = [each.name for each in above]
    return above[: names.index("sleep") + 1] if "sleep" in names else [folder]

"""The largest folders of a full home, so that its user knows what to delete."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_FOLDERS: Final = 3

MIN_SHARE: Final = 0.05
"""Of the whole: deleting less makes little room."""

MAIN_SHARE: Final = 0.8
"""A folder with so much of its parent is named instead of it: `~/.cache/pip`, not `~/.cache`."""

MAX_PATH_CHARS: Final = 100

ENTRIES_PER_CHECK: Final = 1000
"""Between two checks of the time: a single folder may hold millions of files."""


@dataclass(slots=True)
class Usage:
    """What a file or folder of the home takes, as far as it was measured."""

    path: str
    """From the home, such as `~/.cache/pip`. Its names are whatever the user chose."""
    size_bytes: int = 0
    files: int = 0
    below: dict[str, Usage] = field(default_factory=dict)


def measure(home: Path, seconds: float) -> tuple[Usage, bool]:
    """The usage of a home, two levels deep; and whether all was measured within `seconds`.

    It stays on the home's file system and follows no link. It goes down level by level, so that no
    large folder keeps the others from being measured. Blocks. Raises `OSError`.
    """
    until = time.monotonic() + seconds
    home = home.resolve()  # on the embedded EC2 a link to its volume
    device = home.stat().st_dev
    total = Usage("~")
    linked: set[int] = set()
    """Inodes of files with several names, which are counted once."""
    waiting = deque([(str(home), [total])])
    while waiting:
        folder, parents = waiting.popleft()
        for number, (name, found) in enumerate(_entries(folder)):
            if number % ENTRIES_PER_CHECK == 0 and time.monotonic() >= until:
                return total, False
            if found.st_dev != device or found.st_ino in linked:
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            if found.st_nlink > 1 and not is_folder:
                linked.add(found.st_ino)
            # Of the second level only folders: files there are not what a user deletes one by one.
            has_own_usage = len(parents) == 1 or (len(parents) == 2 and is_folder)
            places = [*parents, _child(parents[-1], name)] if has_own_usage else parents
            for each in places:
                each.size_bytes += found.st_blocks * 512
                each.files += 1
            if is_folder:
                waiting.append((f"{folder}/{name}", places))
    return total, True


def largest(total: Usage, amount: Callable[[Usage], int]) -> list[Usage]:
    """The folders and files with the most of `amount`, the largest first; else the home itself."""
    found = []
    for each in sorted(total.below.values(), key=amount, reverse=True)[:MAX_FOLDERS]:
        if amount(each) >= MIN_SHARE * amount(total):
            main = max(each.below.values(), key=amount, default=each)
            found.append(main if amount(main) >= MAIN_SHARE * amount(each) else each)
    return found or [total]


def _child(parent: Usage, name: str) -> Usage:
    if name not in parent.below:
        shown = os.fsencode(name).decode(errors="replace")
        parent.below[name] = Usage(f"{parent.path}/{shown}"[:MAX_PATH_CHARS])
    return parent.below[name]


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """What is in a folder; nothing of one that was deleted, or replaced by a link."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError), os.scandir(descriptor) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(descriptor)

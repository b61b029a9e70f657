"""The largest folders of a full home, so that its user knows what to delete."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_FOLDERS: Final = 3

MIN_SHARE: Final = 0.05
"""Share of the whole below which a folder is not named: deleting it makes little room."""

MAIN_SHARE: Final = 0.8
"""A folder with so much of its parent is named instead of it: `~/.cache/pip`, not `~/.cache`."""

MAX_PATH_CHARS: Final = 100

NAMED_BYTES: Final = 2**20
"""A smaller file has no usage of its own: a home may have hundreds of thousands of them."""

MAX_BELOW: Final = 300
"""Folders with a usage of their own in one; others count in it."""

MAX_WAITING: Final = 100_000
"""Folders that are yet to be measured: what is found later is not."""

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


def measure(
    home: Path, seconds: float, closed: threading.Event | None = None
) -> tuple[Usage, bool]:
    """The usage of a home, two levels deep; and whether all was measured within `seconds`, and
    before it was `closed`.

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
        if len(waiting) > MAX_WAITING:
            return total, False
        for number, (name, found) in enumerate(_entries(folder)):
            if closed is not None and closed.is_set():
                return total, False
            if number % ENTRIES_PER_CHECK == 0 and time.monotonic() >= until:
                return total, False
            if found.st_dev != device or found.st_ino in linked:
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            if found.st_nlink > 1 and not is_folder:
                linked.add(found.st_ino)
            size = found.st_blocks * 512
            # Small files, and those of the second level, are not what a user deletes one by one.
            is_named = is_folder or (len(parents) == 1 and size >= NAMED_BYTES)
            own = _child(parents[-1], name) if is_named and len(parents) <= 2 else None
            places = parents if own is None else [*parents, own]
            for each in places:
                each.size_bytes += size
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


def _child(parent: Usage, name: str) -> Usage | None:
    if name not in parent.below:
        if len(parent.below) >= MAX_BELOW:
            return None
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

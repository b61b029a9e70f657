"""Checkpoints in a folder. A generation is complete once its folder has its final name.

```text
00000007/state            what `save(path)` wrote: a file or a folder
00000007/checkpoint.json  the position
.new/                     the next one, until it is complete
```
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ..core.text import sizes
from ..sleep import plan
from .place import Lock
from .record import CheckpointError, Record, parse

RECORD: Final = "checkpoint.json"
STATE: Final = "state"
NEW: Final = ".new"

BLOCK_BYTES: Final = 512
"""Of `st_blocks`, whatever the file system's own blocks are."""

SMALL_BYTES: Final = 1 << 20
"""A state of this size is saved however full the disk is: that costs notebooks nothing, and without
it the loop would lose its place."""

Save = Callable[[Path], object]


class FolderStore:
    """The checkpoints of one loop in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: Lock | None = None

    def __str__(self) -> str:
        return str(self._folder)

    def open(self) -> None:
        """Make the folder and lock it. Raises `CheckpointError` if another process has it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lock is None:
            self._lock = Lock(self._folder)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def generations(self) -> list[int]:
        """Numbers of the complete ones, the newest first."""
        if not self._folder.is_dir():
            return []
        found = (each.name for each in self._folder.iterdir())
        return sorted((int(name) for name in found if name.isdigit()), reverse=True)

    def read(self, generation: int) -> Record:
        """Its record. Raises `ValueError` if it is incomplete."""
        folder = self._folder / _named(generation)
        try:
            record = parse((folder / RECORD).read_bytes())
        except OSError as error:
            raise ValueError(str(error)) from error
        if files_in(folder) != record.files:
            raise ValueError("its files are not those that were saved")
        return record

    def load(self, generation: int, load: Save) -> None:
        """Call `load` with the path of the generation's state."""
        load(self._folder / _named(generation) / STATE)

    def write(self, generation: int, save: Save | None, record: Callable[..., Record]) -> None:
        """Save a complete generation, and remove the older ones only then.

        One that fails leaves nothing. Raises `CheckpointError` if the disk has no room for another
        state of the last one's size, and what `save` raises.
        """
        new = self._folder / NEW
        shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
        self._check_space()
        new.mkdir(mode=0o700)
        try:
            (new / RECORD).write_bytes(record(files=call(save, new)).to_json())
            sync(new)
            new.rename(self._folder / _named(generation))
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _fsync(self._folder)
        self.remove(before=generation)

    def _check_space(self) -> None:
        """Raises `CheckpointError` where the next state may leave less of the disk free than
        notebooks need."""
        needed = self._last_bytes()
        disk = os.statvfs(self._folder)
        total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        if needed > max(SMALL_BYTES, plan.free_bytes(sys.maxsize, 0, free, total)):
            raise CheckpointError(
                f"{sizes.in_words(free)} are left on the disk: too little for a state of "
                f"{sizes.in_words(needed)} and for notebooks. Delete what you do not need"
            )

    def _last_bytes(self) -> int:
        """What the newest state takes on the disk; 0 without one."""
        newest = next(iter(self.generations()), None)
        if newest is None:
            return 0
        return sum(
            each.lstat().st_blocks * BLOCK_BYTES
            for each in _walk(self._folder / _named(newest) / STATE)
        )

    def remove(self, before: int | None = None) -> None:
        """Remove all generations with what an incomplete one has left, or those before one. A
        removal that is cut short leaves no generation: its record goes first."""
        if before is None:
            shutil.rmtree(self._folder / NEW, ignore_errors=True)
        for each in self.generations():
            if before is None or each < before:
                (self._folder / _named(each) / RECORD).unlink(missing_ok=True)
                shutil.rmtree(self._folder / _named(each), ignore_errors=True)


def call(save: Save | None, folder: Path) -> dict[str, int]:
    """What `save` wrote below `folder`, as `Record.files`. Raises `CheckpointError` if that is
    not what `load` will be asked to read."""
    if save is None:
        return {}
    path = folder / STATE
    save(path)
    if not path.exists():
        others = ", ".join(sorted(each.name for each in folder.iterdir()))
        wrote = f"wrote {others} instead" if others else "wrote nothing"
        raise CheckpointError(
            f"save(path) must write a file or folder named {path.name}, and {wrote}. "
            "Some libraries add a suffix: give them an open file, as in "
            '`with path.open("wb") as file:`'
        )
    return files_in(folder)


def files_in(folder: Path) -> dict[str, int]:
    """The bytes of each file of the state below `folder`."""
    return {
        str(file.relative_to(folder)): file.stat().st_size
        for file in sorted(_walk(folder / STATE))
        if file.is_file()
    }


def sync(folder: Path) -> None:
    """Write everything below `folder` to the disk."""
    for each in _walk(folder):
        if each.is_file() or each.is_dir():
            _fsync(each)


def _walk(path: Path) -> Iterator[Path]:
    """Files before the folder that they are in."""
    if path.is_dir() and not path.is_symlink():
        for each in sorted(path.iterdir()):
            yield from _walk(each)
    if path.exists():
        yield path


def _fsync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _named(generation: int) -> str:
    return f"{generation:08d}"

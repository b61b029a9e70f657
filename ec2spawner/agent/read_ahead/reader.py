"""Reads files ahead: `python -m ec2spawner.agent.read_ahead.reader ROOT EXCLUDED... -- PATTERN...`.

A volume that is made from a snapshot loads each block from S3 when it is first read, which takes
milliseconds. This runs as the notebook user, in a process of its own that the agent kills when a
lease comes. Only regular files on the disk of ROOT are opened, wherever links lead: nothing of a
home or of another mount, no device and no pipe. It writes the number of bytes that it has read, a
line each second.
"""

from __future__ import annotations

import ctypes
import os
import platform
import queue
import stat
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .limits import BYTES_PER_SECOND, MAX_BYTES, MAX_SECONDS

ENVIRONMENT: Final = "environment"
"""Stands for the notebook's environment: this process runs in it."""

THREADS: Final = 8
"""A first read waits for S3, not for the disk: one after the other would take hours."""

CHUNK: Final = 2**20

REPORT_SECONDS: Final = 1.0

IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
"""Number of the system call, by machine (`asm/unistd.h`)."""

IDLE: Final = 3 << 13
"""`IOPRIO_CLASS_IDLE`. A disk without a scheduler ignores it, as NVMe often has none: the rate is
what leaves room there."""


@dataclass(slots=True)
class Limits:
    """Shared by all threads."""

    max_bytes: int = MAX_BYTES
    max_seconds: float = MAX_SECONDS
    bytes_per_second: float = BYTES_PER_SECOND
    done: int = 0
    _begin: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        """Whether no more may be read."""
        return self.done >= self.max_bytes or time.monotonic() - self._begin >= self.max_seconds

    def count(self, size: int) -> float:
        """Count bytes that were read; how many seconds to wait so that the rate holds."""
        with self._lock:
            self.done += size
            return self._begin + self.done / self.bytes_per_second - time.monotonic()


@dataclass(slots=True)
class Files:
    """What may be read: each file once, on one disk, and not below the excluded folders."""

    device: int
    excluded: Sequence[str]
    _seen: set[int] = field(default_factory=set)

    def found(self, patterns: Sequence[str]) -> Iterator[Path]:
        """Paths of regular files without links, in the order of the patterns."""
        for pattern in patterns:
            for match in _matches(pattern):
                if match.is_dir():
                    yield from self._below(Path(os.path.realpath(match)))
                else:
                    yield from self._allowed(match)

    def _below(self, folder: Path) -> Iterator[Path]:
        if not self._is_here(folder):
            return
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(x for x in folders if self._is_here(Path(parent, x)))
            for name in sorted(names):
                yield from self._allowed(Path(parent, name))

    def _allowed(self, path: Path) -> Iterator[Path]:
        path = Path(os.path.realpath(path))
        if not self._is_here(path):
            return
        try:
            found = path.lstat()
        except OSError:
            return
        if stat.S_ISREG(found.st_mode) and found.st_ino not in self._seen:
            self._seen.add(found.st_ino)
            yield path

    def _is_here(self, path: Path) -> bool:
        if any(path.is_relative_to(each) for each in self.excluded):
            return False
        try:
            return path.lstat().st_dev == self.device
        except OSError:
            return False


def _matches(pattern: str) -> list[Path]:
    if pattern == ENVIRONMENT:
        return environment()
    return sorted(Path("/").glob(pattern.lstrip("/")))


def environment() -> list[Path]:
    """The folders that the notebook server and its kernels import and serve from."""
    packages = [Path(each) for each in sys.path if each.endswith("-packages")]
    return [*packages, Path(sys.prefix, "share", "jupyter")]


def read(path: Path, device: int, limits: Limits) -> None:
    """Read a file to its end, or until no more may be read. What cannot be read is skipped."""
    # It may have been replaced since it was found: no link is followed, no pipe waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags)
    except OSError:
        return
    try:
        opened = os.fstat(file)
        if not stat.S_ISREG(opened.st_mode) or opened.st_dev != device:
            return
        while not limits.is_over and (size := len(os.read(file, CHUNK))):
            if (pause := limits.count(size)) > 0:
                time.sleep(min(pause, 1.0))
    except OSError:
        return
    finally:
        os.close(file)


def read_all(files: Files, patterns: Sequence[str], limits: Limits) -> None:
    """Read in several threads; returns when everything is read, or no more may be."""
    paths: queue.Queue[Path | None] = queue.Queue(maxsize=4 * THREADS)

    def work() -> None:
        while (path := paths.get()) is not None:
            if not limits.is_over:
                read(path, files.device, limits)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for path in files.found(patterns):
        if limits.is_over:
            break
        paths.put(path)
    for _ in threads:
        paths.put(None)
    for thread in threads:
        thread.join()


def be_idle() -> None:
    """Let everything else come first, as far as the system allows it."""
    os.nice(19)
    number = IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, IDLE)  # IOPRIO_WHO_PROCESS, this one


def main() -> None:
    """Read what the command line names, and report."""
    arguments = sys.argv[1:]
    end = arguments.index("--")
    root, excluded, patterns = arguments[0], arguments[1:end], arguments[end + 1 :]
    be_idle()
    limits = Limits()

    def report() -> None:
        while True:
            time.sleep(REPORT_SECONDS)
            os.write(1, b"%d\n" % limits.done)

    threading.Thread(target=report, daemon=True).start()
    files = Files(Path(root).stat().st_dev, [os.path.realpath(each) for each in excluded])
    read_all(files, patterns, limits)
    os.write(1, b"%d\n" % limits.done)


if __name__ == "__main__":
    main()

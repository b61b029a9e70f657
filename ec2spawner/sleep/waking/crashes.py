"""What has ended the kernel while it was restored, so that this happens once.

While something is imported or loaded, a file in the generation names it. Whoever restores the
generation next finds the file if the process has ended meanwhile, and notes the name in
`crashed.json`: then it is tried in a child first. The file is not synced: the page cache outlives
the process, and the end of a machine is no crash. A kernel that its user restarts meanwhile is
noted too, which costs a trial, and the second time the value until its user names it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..storage import manifest as manifests
from ..storage import owned

MARKER: Final = "restoring"
FILE: Final = "crashed.json"

MAX_BYTES: Final = 1 << 20
MAX_CRASHES: Final = 2
"""What has ended the kernel again, although a trial of it did not fail or could not be made, is not
restored until its user asks for it."""


class Crashes:
    """Those of one generation. As a context, the marker's file is open in it: where a home is on a
    file server, making and removing a file for each variable would take longer than loading it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._marker = -1
        self._counts = _counts(folder)
        if name := interrupted(folder):
            self._counts[name] = self._counts.get(name, 0) + 1
            self._write()
            self._unmark()

    @property
    def of_files(self) -> bool:
        """Whether loading a file has ended a kernel."""
        return any(map(manifests.FILE.fullmatch, self._counts))

    @property
    def of_modules(self) -> bool:
        """Whether importing a module has ended a kernel."""
        return not all(map(manifests.FILE.fullmatch, self._counts))

    def __enter__(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(OSError):  # a full disk does not keep anything from being restored
            self._marker = os.open(self._folder / MARKER, flags, 0o600)

    def __exit__(self, *_: object) -> None:
        if self._marker >= 0:
            os.close(self._marker)
            self._marker = -1
        self._unmark()

    @contextlib.contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """`name`: of the module or file that is imported or loaded within."""
        self._mark(name)
        try:
            yield
        finally:
            self._mark("")
            if self._counts.pop(name, 0):  # the process is still there
                self._write()

    def is_refused(self, name: str) -> bool:
        """Whether this has ended the kernel although a trial did not fail."""
        return self._counts.get(name, 0) >= MAX_CRASHES

    def allow(self, name: str) -> None:
        """Its user asks for it: try it once more."""
        if self.is_refused(name):
            self._counts[name] = MAX_CRASHES - 1

    def move_to(self, folder: Path) -> None:
        """Values are read from another generation from now on, whose files have other names."""
        self._folder = folder
        modules = [name for name in self._counts if not manifests.FILE.fullmatch(name)]
        self._counts = {name: self._counts[name] for name in modules}
        self._write()

    def _mark(self, name: str) -> None:
        if self._marker >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._marker, name.encode("utf-8", "replace") + b"\n", 0)

    def _unmark(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / MARKER).unlink(missing_ok=True)

    def _write(self) -> None:
        file = self._folder / FILE
        with contextlib.suppress(OSError):
            if self._counts:
                owned.replace_file(file, json.dumps(self._counts).encode())
            else:
                file.unlink(missing_ok=True)


def interrupted(folder: Path) -> str:
    """What was imported or loaded when a process that restored this generation ended; empty if none
    did. Blocks for a small file."""
    name, _, _ = _content(folder / MARKER).partition(b"\n")
    return name.decode("utf-8", "replace")


def _counts(folder: Path) -> dict[str, int]:
    """How often each has ended a kernel."""
    try:
        found: Any = json.loads(_content(folder / FILE) or b"{}")
    except (ValueError, RecursionError):
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {name: count for name, count in known if type(count) is int and count > 0}


def _content(path: Path) -> bytes:
    try:
        with open(owned.open_ours(path), "rb") as file:  # noqa: PTH123 - of a descriptor
            return file.read(MAX_BYTES)
    except (owned.NotOurs, OSError):
        return b""

"""The files of a generation that is being saved: their names, and the room for them."""

from __future__ import annotations

import os
from pathlib import Path

from .. import plan
from . import owned


class Files:
    """Those of one folder."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """`max_bytes`: that all of them may take."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._number = 0
        self._links: dict[tuple[Path, str], str] = {}
        self.used = 0
        """Bytes of those that are complete."""

    @property
    def linked(self) -> set[str]:
        """Those that are files of an earlier generation, too: removing one frees no space."""
        return {*self._links.values()}

    def new_number(self) -> int:
        """For the name of a file."""
        self._number += 1
        return self._number

    def path(self, number: int) -> Path:
        """Of the values with this number."""
        return self._folder / f"{number}.sleep"

    def remove(self, number: int) -> None:
        """Remove the values with this number, also if they are not complete."""
        path = self.path(number)
        for each in (path, path.with_name(path.name + owned.TEMPORARY)):
            each.unlink(missing_ok=True)

    def free(self, written: int) -> int:
        """How many bytes may still be written, besides so many of a file that is not complete."""
        disk = os.statvfs(self._folder)
        return plan.free_bytes(
            self._max_bytes,
            self.used + written,
            disk.f_bavail * disk.f_frsize,
            disk.f_blocks * disk.f_frsize,
        )

    def write_source(self, text: str) -> str:
        """Write a definition's source; the name of the file, empty where there is no room."""
        content = text.encode("utf-8", "replace")
        if not content or len(content) > self.free(0):
            return ""
        name = f"{self.new_number()}.py"
        try:
            owned.replace_file(self._folder / name, content)
        except OSError:
            return ""
        self.used += len(content)
        return name

    def link(self, folder: Path, file: str) -> str:
        """Link a file of an earlier generation, once; its name here. It needs no time and no free
        space. Raises OSError."""
        if (folder, file) not in self._links:
            name = f"{self.new_number()}{Path(file).suffix}"
            os.link(folder / file, self._folder / name)
            self._links[folder, file] = name
        return self._links[folder, file]

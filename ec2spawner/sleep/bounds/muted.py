"""Dropping what values print while they are saved or restored."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any, Literal


@contextlib.contextmanager
def muted(name: Literal["stdout", "stderr"]) -> Iterator[None]:
    """Within, what this thread writes to a stream of `sys` is dropped.

    `sys.stdout` is of the whole process. Threads of the user's keep their output, and so does
    what keeps the stream for longer, such as a log handler that a value makes as it is loaded.
    """
    behind = getattr(sys, name)
    stream = _Muted(behind)
    setattr(sys, name, stream)
    try:
        yield
    finally:
        stream.is_over = True
        setattr(sys, name, behind)


class _Muted(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        """None where the process has no such stream."""
        self._thread = threading.get_ident()
        self.is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text) if self._is_dropped() else int(self._behind.write(text))

    def flush(self) -> None:
        if not self._is_dropped():
            self._behind.flush()

    def close(self) -> None:
        """The stream behind stays open: Python closes what it collects."""

    def _is_dropped(self) -> bool:
        is_ours = not self.is_over and threading.get_ident() == self._thread
        return is_ours or self._behind is None

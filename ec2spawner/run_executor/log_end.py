"""The end of what a script prints."""

from __future__ import annotations

from typing import Final

from ..core.runs.documents import DocumentError, pack
from ..core.text import sizes

MAX_LOG_BYTES: Final = 8 * 1024 * 1024

MIN_LOG_BYTES: Final = 64 * 1024
"""No log is cut to less: this much fits into a message whatever is in it."""


class LogEnd:
    """The last `MAX_LOG_BYTES`, as they came: with colours. Takes twice as much memory at most."""

    def __init__(self) -> None:
        self._end = bytearray()
        self.seen = 0
        """All bytes so far."""

    def add(self, part: bytes) -> None:
        """The next part."""
        self._end += part
        self.seen += len(part)
        if len(self._end) > 2 * MAX_LOG_BYTES:
            del self._end[:-MAX_LOG_BYTES]

    def last(self, size: int) -> str:
        """The last `size` bytes, as text."""
        return self._end[-size:].decode(errors="replace")

    def snapshot(self) -> tuple[bytes, int]:
        """What `encode` takes, for a thread."""
        return bytes(self._end[-MAX_LOG_BYTES:]), self.seen


def encode(log: bytes, seen: int) -> str:
    """The document of the log: as much of its end as a message may have."""
    while True:
        try:
            return pack([_left_out(seen - len(log)), log])
        except DocumentError:
            if len(log) <= MIN_LOG_BYTES:
                return ""
        log = log[-max(len(log) * 3 // 4, MIN_LOG_BYTES) :]


def _left_out(size: int) -> bytes:
    return f"[The first {sizes.in_words(size)} are left out.]\n".encode() if size else b""

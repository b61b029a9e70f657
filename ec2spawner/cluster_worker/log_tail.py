"""The end of what an engine prints on this instance."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Final

MAX_LINES: Final = 2000
MAX_LINE: Final = 2000
"""Characters of a line; the rest of a longer one is left out."""


class LogTail:
    """The last lines, in memory; each is printed as well, for the log of the instance's agent."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._grown = asyncio.Event()

    def text(self) -> str:
        """All that is kept."""
        return "".join(f"{line}\n" for line in self._lines)

    def add(self, line: str) -> None:
        """Keep one line."""
        self._lines.append(line[:MAX_LINE])
        sys.stdout.write(f"{line[:MAX_LINE]}\n")
        sys.stdout.flush()
        self._grown.set()
        self._grown = asyncio.Event()

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Keep every line of a stream until its end."""
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the stream's buffer, which is dropped
                continue
            if not line:
                return
            self.add(line.decode(errors="replace").rstrip())

    async def until(self, words: str) -> None:
        """Return once a line has these words."""
        while words not in self.text():
            await self._grown.wait()

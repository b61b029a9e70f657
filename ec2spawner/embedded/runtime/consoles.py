"""What GetConsoleOutput answers: the latest output, or what EC2 has posted of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from .files import tail

CONSOLE_TAIL: Final = 64 * 1024
"""Bytes that GetConsoleOutput answers with, as EC2 does."""

POST_SECONDS: Final = 1.0
"""From a start, stop, reboot or termination until its output is posted: minutes on EC2."""

ENDED_CONSOLES: Final = 50
"""EC2 has the output of a terminated instance for an hour; here, of the latest of them."""


class Consoles:
    """The consoles of all instances, also of those that are gone."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._ended: dict[str, bytes] = {}
        """By instance id, oldest first: the end of its output."""
        self._posted: dict[str, bytes] = {}
        self._posts: set[asyncio.TimerHandle] = set()

    def add(self, instance_id: str, file: Path) -> None:
        """A new instance, with the file that its console is written to."""
        self._files[instance_id] = file

    def post(self, instance_id: str) -> None:
        """The instance has changed its state: post its output a little later."""
        loop = asyncio.get_running_loop()

        def take() -> None:
            self._posts.discard(timer)
            self._posted[instance_id] = self.latest(instance_id)

        timer = loop.call_later(POST_SECONDS, take)
        self._posts.add(timer)

    def remove(self, instance_id: str) -> None:
        """The instance is gone, and its file will be: remember the end of its output."""
        if (file := self._files.pop(instance_id, None)) is not None:
            self._ended[instance_id] = tail(file, CONSOLE_TAIL)
        while len(self._ended) > ENDED_CONSOLES:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._posted.pop(oldest, None)

    def latest(self, instance_id: str) -> bytes:
        """The end of the output until now; empty for an unknown instance. Reads a file."""
        file = self._files.get(instance_id)
        return self._ended.get(instance_id, b"") if file is None else tail(file, CONSOLE_TAIL)

    def posted(self, instance_id: str) -> bytes:
        """The end of the output as it was last posted; empty before that."""
        return self._posted.get(instance_id, b"")

    def close(self) -> None:
        """Post nothing more."""
        for timer in self._posts:
            timer.cancel()
        self._posts.clear()

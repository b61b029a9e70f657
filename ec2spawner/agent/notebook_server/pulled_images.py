"""Which container images the agent has pulled, so that it removes those that nothing uses.

A retained instance keeps its disk: each new image of a tag would leave the one before there, until
the disk is full. Images that the AMI had, or that its user pulled, are not touched.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MAX_IMAGES: Final = 100
"""Of what is remembered: whatever the file holds, no start spends minutes on it."""

IMAGE_ID: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
"""As the engines write it. Nothing else is ever given to a command that removes images."""


class PulledImages:
    """Their ids, one in a line of a file on the instance's disk."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "pulled-images"

    def ids(self) -> list[str]:
        """Oldest first. Blocks for a read."""
        try:
            words = self._file.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return []
        return [each for each in words if IMAGE_ID.fullmatch(each)][-MAX_IMAGES:]

    def add(self, image_id: str) -> None:
        """Remember one. Blocks for a write."""
        self.forget(image_id)
        self._write([*self.ids(), image_id])

    def forget(self, image_id: str) -> None:
        """Blocks for a write."""
        self._write([each for each in self.ids() if each != image_id])

    async def prune(self, used: str, remove: Callable[[str], Awaitable[bool]]) -> None:
        """Remove all but `used`; `remove` returns whether an image is gone."""
        for image_id in await asyncio.to_thread(self.ids):
            if image_id != used and await remove(image_id):
                log.info("the image %s, which was pulled before, is removed", image_id)
                await asyncio.to_thread(self.forget, image_id)

    def _write(self, ids: list[str]) -> None:
        try:
            self._file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            new = self._file.with_suffix(".new")
            new.write_text("".join(f"{each}\n" for each in ids), encoding="ascii")
            new.replace(self._file)
        except OSError as error:
            log.warning("pulled images are not remembered, and stay on the disk: %s", error)

"""Which disks of a lease are full, and the largest folders of a home that is."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Final

from ...core.text.sizes import in_words
from ...core.text.untrusted import visible
from ...wire import DiskUse, LeaseGrant, Sentence, sentence
from ..settings import Settings
from .full_disks import disk_uses, full_disks, home_is_on_system_disk
from .largest_folders import largest, measure

log = logging.getLogger(__name__)

START_SECONDS: Final = 2.0
"""For measuring the folders of a full home before its server starts, which waits for that."""

RUN_SECONDS: Final = 10.0
"""For measuring them while the server runs: a home may have millions of files."""

CHECK_SECONDS: Final = 5.0
"""For the whole check before a start, and for the end of one: a disk may not respond."""

MEASURED_EVERY: Final = 60.0
"""Seconds between two measurements of the folders: a disk may be full every other moment."""


class DiskWatch:
    """The full disks of one lease, and the largest folders of a full home."""

    def __init__(self, settings: Settings, grant: LeaseGrant) -> None:
        self._settings = settings
        self._grant = grant
        self.uses: list[DiskUse] = []
        """How full the disks are, as of the last check."""
        self._checking: asyncio.Task[list[Sentence]] | None = None
        self._closed = threading.Event()
        self._full: list[Sentence] = []
        self._folders: list[Sentence] = []
        self._is_measured = False
        """Whether the folders were, since the home got full."""
        self._measured_at = float("-inf")
        """By the monotonic clock: when the folders were measured last."""

    async def check(self, seconds: float = RUN_SECONDS) -> list[Sentence]:
        """Which disks are full, and which folders to look at. As long as a disk does not respond,
        neither does this; there is one check at a time, also of those that nobody awaits."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(asyncio.to_thread(self._check, seconds))
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        """End a measurement in progress: it keeps folders of the home open."""
        self._closed.set()
        if self._checking is not None:
            await asyncio.wait({self._checking}, timeout=CHECK_SECONDS)

    async def before_start(self) -> list[Sentence]:
        """Check for at most `CHECK_SECONDS`: a start does not depend on it."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self.check(START_SECONDS)
        except TimeoutError:
            log.warning("the disks did not respond within %.0f s", CHECK_SECONDS)
            return []

    def _check(self, seconds: float) -> list[Sentence]:
        self.uses = disk_uses(self._settings, self._grant)
        full = full_disks(self._settings, self._grant.home.kind)
        if full != self._full:
            codes = ", ".join(each.code for each in full)
            log.warning("full disks: %s", codes or "none any more")
            self._full, self._folders, self._is_measured = full, [], False
        lacks = self._home_lacks()
        is_due = time.monotonic() - self._measured_at >= MEASURED_EVERY
        if lacks and is_due and not self._is_measured:
            self._folders = self._measure(seconds, lacks)
        return [*full, *self._folders]

    def _home_lacks(self) -> set[str]:
        """What the home lacks: `home-full`, `home-without-inodes`."""
        codes = {each.code for each in self._full}
        if home_is_on_system_disk(self._settings):
            codes = {each.replace("system-disk", "home") for each in codes}
        return codes & {"home-full", "home-without-inodes"}

    def _measure(self, seconds: float, lacks: set[str]) -> list[Sentence]:
        """The largest folders, by what the home lacks."""
        try:
            total, is_complete = measure(self._settings.user.home, seconds, self._closed)
        except OSError:
            return []
        if is_complete or seconds >= RUN_SECONDS:
            self._is_measured, self._measured_at = True, time.monotonic()
        if not total.below:  # the disk did not respond in time
            return []
        if "home-full" in lacks:
            return [
                sentence("folder-bytes", folder=each.path, bytes=each.size_bytes)
                for each in largest(total, lambda each: each.size_bytes)
            ]
        return [
            sentence("folder-files", folder=each.path, files=each.files)
            for each in largest(total, lambda each: each.files)
        ]


def start_notes(full: list[Sentence]) -> list[str]:
    """What the progress of a start says of full disks."""
    return [each for found in full if (each := _in_english(found))]


def _in_english(found: Sentence) -> str:
    of = found.params
    match found.code:
        case "home-full":
            return (
                f"Your home is full ({of['gib']} GiB): nothing can be saved there until you delete "
                "something"
            )
        case "home-without-inodes":
            return "Your home has no inodes left: no new file can be saved until you delete some"
        case "system-disk-full":
            return f"The machine's system disk is full ({of['gib']} GiB)"
        case "system-disk-without-inodes":
            return "The machine's system disk has no inodes left"
        case "folder-bytes":
            return f"{visible(str(of['folder']))} takes {in_words(float(of['bytes']))}"
        case "folder-files":
            return f"{visible(str(of['folder']))} has {of['files']} files"
    return ""

"""Which disks of a lease are full, and the largest folders of a home that is."""

from __future__ import annotations

import asyncio
import logging
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
"""The same while the server runs: for homes of millions of files."""

CHECK_SECONDS: Final = 5.0
"""For the whole check before a start: a disk may not respond."""


class DiskWatch:
    """The full disks of one lease. Folders are measured once each time that a home gets full."""

    def __init__(self, settings: Settings, grant: LeaseGrant) -> None:
        self._settings = settings
        self._grant = grant
        self.uses: list[DiskUse] = []
        """How full the disks are, as of the last check."""
        self._lock = asyncio.Lock()
        self._full: list[Sentence] = []
        self._folders: list[Sentence] = []
        self._is_measured = True

    async def check(self, seconds: float = RUN_SECONDS) -> list[Sentence]:
        """Which disks are full, and which folders to look at. As long as a disk does not respond,
        neither does this."""
        async with self._lock:
            return await asyncio.to_thread(self._check, seconds)

    async def before_start(self) -> list[Sentence]:
        """The same within `CHECK_SECONDS`: a start does not depend on it."""
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
        if not self._is_measured:
            self._folders = self._measure(seconds)
        return [*self._full, *self._folders]

    def _measure(self, seconds: float) -> list[Sentence]:
        """The largest folders, by what the home lacks."""
        codes = {each.code for each in self._full}
        if home_is_on_system_disk(self._settings):
            codes = {each.replace("system-disk", "home") for each in codes}
        if not codes & {"home-full", "home-without-inodes"}:
            self._is_measured = True
            return []
        try:
            total, is_complete = measure(self._settings.user.home, seconds)
        except OSError:
            return []
        self._is_measured = is_complete or seconds >= RUN_SECONDS
        if not total.below:  # the disk did not respond in time
            return []
        if "home-full" in codes:
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

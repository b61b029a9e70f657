"""The process that reads files ahead, as the agent sees it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from ..memory_protection import expendable
from ..settings import Settings
from . import reader

log = logging.getLogger(__name__)

EXCLUDED: Final = ("/home", "/root")
"""Beside the notebook user's home. Other mounts, such as of `/proc` and of buckets, are not on the
root disk and are left out by that."""

EXIT_SECONDS: Final = 2.0
"""For a killed process to be gone."""


class ReadAhead:
    """Once for each boot, and only before the first lease: then a user's files may be mounted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._is_over = False
        self.bytes_read = 0

    @property
    def has_begun(self) -> bool:
        """Whether the hub has said what to read, or nothing may be read any more."""
        return self._is_over or self._task is not None

    @property
    def is_open(self) -> bool:
        """Whether it is still to begin, or under way."""
        return not self._is_over

    def begin(self, patterns: Sequence[str] | None) -> None:
        """Read these in the background; None is not now. Returns at once."""
        if patterns is None or self.has_begun:
            return
        if not self._settings.metadata_is_amazon:
            # A simulated instance has the environment of this machine, whose disk has all of it.
            patterns = [each for each in patterns if each != reader.ENVIRONMENT]
        if not patterns:
            self._is_over = True
            return
        self._task = asyncio.create_task(self._run(patterns), name="read ahead")

    async def end(self) -> None:
        """A lease has come, or the agent ends: no byte is read any more."""
        self._is_over = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=EXIT_SECONDS)
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXIT_SECONDS):
                    await self._process.wait()

    async def _run(self, patterns: Sequence[str]) -> None:
        try:
            self._process = await self._execute(patterns)
            await self._follow(self._process)
        except OSError as error:
            log.warning("no files are read ahead: %s", error)
        finally:
            self._is_over = True
            process = self._process
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            log.info("read %.0f MB of files ahead", self.bytes_read / 1e6)

    async def _execute(self, patterns: Sequence[str]) -> asyncio.subprocess.Process:
        user, root = self._settings.user, str(self._settings.root)
        excluded = (*EXCLUDED, str(user.home)) if root == "/" else (str(user.home),)
        argv = (sys.executable, "-P", "-m", reader.__name__, root, *excluded, "--", *patterns)
        return await asyncio.create_subprocess_exec(
            *expendable(*argv),
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            user=None if user.is_agent else user.uid,
            group=None if user.is_agent else user.gid,
            extra_groups=None if user.is_agent else list(user.groups),
        )

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.strip().isdigit():
                self.bytes_read = int(line)
        await process.wait()

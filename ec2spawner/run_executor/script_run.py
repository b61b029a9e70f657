"""Runs a script of Python."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..checkpoint.place import NOTEBOOK, RUN
from ..core.runs.documents import DocumentError, unpack
from ..core.text.server_log import last_words
from ..process_end import kill_session, processes_below, until_ended
from ..wire import RunWork
from .execution import CannotExecute, Outcome, Progress, in_words
from .home_python import use_home_packages
from .log_end import LogEnd, encode
from .script_arguments import arguments
from .threads import in_thread
from .working_folder import open_folder, own_script, write_script

CHUNK: Final = 64 * 1024

READ_SECONDS: Final = 2.0
"""For the rest of the output of a script that has ended, which a child may hold open."""

MAX_LAST_LINES: Final = 400
"""Characters of a failure's message."""

MAX_SHOWN_LINE: Final = 200
"""Characters of the last line, which a progress report shows."""


class ScriptRun:
    """See `Execution`."""

    def __init__(self, work: RunWork, home: Path) -> None:
        self._work = work
        self._home = home
        self._log = LogEnd()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._path: Path | None = None

    async def run(self) -> Outcome:
        """See `Execution`."""
        python, path, file = await in_thread(self._prepare)
        self._path = path
        environment = {**os.environ, RUN: str(self._work.number)}
        environment.pop(NOTEBOOK, None)
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *(python, "-u", str(path), *arguments(self._work.parameters)),
                env=environment,
                cwd=file.parent,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotExecute(f"The script did not start: {error}") from error
        assert process.stdout is not None
        self._reading = asyncio.create_task(self._read(process.stdout))
        status = await until_ended(process)
        await asyncio.wait({self._reading}, timeout=READ_SECONDS)
        return Outcome(status == 0, self._how_it_ended(status))

    def progress(self) -> Progress:
        """See `Execution`."""
        lines = self._log.last(1000).splitlines()
        last = next((words for each in reversed(lines) if (words := in_words(each))), "")
        return Progress(message=in_words(last, MAX_SHOWN_LINE), changes=self._log.seen)

    def result(self) -> Callable[[], str]:
        """See `Execution`."""
        log, seen = self._log.snapshot()
        return (lambda: encode(log, seen)) if seen else str

    async def interrupt(self) -> None:
        """See `Execution`."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGINT)

    async def close(self) -> None:
        """See `Execution`."""
        process = self._process
        if process is not None:
            below = await in_thread(processes_below, process.pid)
            await in_thread(kill_session, process.pid, below)
            await until_ended(process)
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=READ_SECONDS)
            self._reading.cancel()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _prepare(self) -> tuple[str, Path, Path]:
        """Python, the script that it runs, and the user's own file. Blocks. Raises `CannotExecute`
        and `OSError`."""
        try:
            document = unpack(self._work.document)
        except DocumentError as error:
            raise CannotExecute(f"The script cannot be read: {error}") from error
        arguments(self._work.parameters)  # before anything is written
        file = open_folder(self._home, self._work, document)
        path = own_script(file, self._work)
        write_script(path, document)
        _, python = use_home_packages(self._home)
        return python, path, file

    async def _read(self, output: asyncio.StreamReader) -> None:
        while part := await output.read(CHUNK):
            self._log.add(part)

    def _how_it_ended(self, status: int) -> str:
        """In words; nothing of a script that has succeeded."""
        if status == 0:
            return ""
        said = last_words(self._log.last(CHUNK), MAX_LAST_LINES)
        if status < 0:
            memory = " (out of memory?)" if status == -signal.SIGKILL else ""
            return in_words(f"killed by {signal.Signals(-status).name}{memory}: {said}")
        return in_words(f"exit status {status}: {said}")

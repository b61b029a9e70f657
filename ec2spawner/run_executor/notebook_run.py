"""Executes a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from ..checkpoint.place import NOTEBOOK, RUN
from ..core.runs.documents import DocumentError, unpack
from ..process_end import kill_session, processes_below
from ..wire import RunWork
from .execution import CannotExecute, Outcome, Progress, in_words
from .home_python import use_home_packages
from .kernel_choice import KernelChoice, choose_kernel
from .notebook_client import RunClient
from .notebook_document import encode, read, snapshot
from .parameters import inject
from .threads import in_thread
from .working_folder import open_folder

SHUTDOWN_SECONDS: Final = 8.0
"""For the kernel, which Jupyter gives 5 s to end by itself before it kills it."""

MAX_SHOWN_SOURCE: Final = 60
"""Characters of the cell that runs."""

log = logging.getLogger(__name__)


class NotebookRun:
    """See `Execution`."""

    def __init__(self, work: RunWork, home: Path) -> None:
        self._work = work
        self._home = home
        self._notebook: NotebookNode | None = None
        self._client: RunClient | None = None
        self._manager: AsyncKernelManager | None = None
        self._cell: NotebookNode | None = None
        self._begun = self._done = 0
        self._is_stopping = False

    async def run(self) -> Outcome:
        """See `Execution`."""
        try:
            choice, file = await in_thread(self._prepare)
            await self._start_kernel(choice, file)
            return await self._execute(choice)
        except CellExecutionError as error:
            return Outcome(False, self._at_cell(f"{error.ename}: {error.evalue}"))
        except DeadKernelError:
            return Outcome(False, self._at_cell("the kernel died (out of memory?)"))

    def progress(self) -> Progress:
        """See `Execution`."""
        if self._notebook is None:
            return Progress()
        total = sum(cell.cell_type == "code" for cell in self._notebook.cells)
        changes = 1 + self._begun + self._done + (self._client.changes if self._client else 0)
        return Progress(self._done, total, self._now(total), changes)

    def result(self) -> Callable[[], str]:
        """See `Execution`."""
        if self._notebook is None:
            return str
        taken = snapshot(self._notebook)
        return lambda: encode(taken)

    async def interrupt(self) -> None:
        """See `Execution`."""
        self._is_stopping = True
        if self._manager is not None and self._manager.has_kernel:
            with contextlib.suppress(Exception):  # it has just ended
                await self._manager.interrupt_kernel()

    async def close(self) -> None:
        """See `Execution`."""
        if self._client is None or self._manager is None:
            return
        pid = int(getattr(self._manager.provisioner, "pid", None) or 0)
        below = await in_thread(processes_below, pid) if pid else []
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                if await self._manager.is_alive():
                    await self._manager.shutdown_kernel(now=self._is_stopping)
                await self._manager.cleanup_resources()
                if self._client.kc is not None:
                    self._client.kc.stop_channels()
        except Exception as error:  # whatever state the kernel is in
            log.warning("the kernel did not end in order: %r", error)
        if pid:
            await in_thread(kill_session, pid, below)

    def _prepare(self) -> tuple[KernelChoice, Path]:
        """The kernel, and the path of the notebook. Blocks. Raises `CannotExecute`, `OSError`."""
        try:
            document = unpack(self._work.document)
        except DocumentError as error:
            raise CannotExecute(f"The notebook cannot be read: {error}") from error
        self._work = self._work.model_copy(update={"document": ""})  # it is in memory once
        notebook = read(document)
        self._kernels, _ = use_home_packages(self._home)
        choice = choose_kernel(self._kernels, notebook)
        if self._work.parameters and not choice.is_python:
            raise CannotExecute(
                f"The kernel {choice.name!r} takes no parameters: only notebooks in Python do."
            )
        inject(notebook, self._work.parameters)
        notebook.metadata["ec2spawner"] = {
            "run": self._work.number,
            "attempt": self._work.attempt,
            "kernel": choice.name,
            **({"note": choice.note} if choice.note else {}),
        }
        file = open_folder(self._home, self._work, document)
        self._notebook = notebook
        return choice, file

    async def _start_kernel(self, choice: KernelChoice, file: Path) -> None:
        """Raises `CannotExecute`."""
        self._manager = AsyncKernelManager(
            kernel_name=choice.name, kernel_spec_manager=self._kernels
        )
        assert self._notebook is not None
        self._client = RunClient(self._notebook, self._manager, str(file.parent))
        environment = os.environ | {NOTEBOOK: str(file), RUN: str(self._work.number)}
        try:
            await self._client.async_start_new_kernel(env=environment)
            await self._client.async_start_new_kernel_client()
        except Exception as error:  # of any kernel's making
            raise CannotExecute(f"The kernel {choice.name!r} did not start: {error}") from error

    async def _execute(self, choice: KernelChoice) -> Outcome:
        """Raises `CellExecutionError` and `DeadKernelError`."""
        assert self._client is not None
        assert self._notebook is not None
        await self._read_language()
        for place, cell in enumerate(self._notebook.cells):
            if self._is_stopping:
                break
            is_code = cell.cell_type == "code"
            self._begun += is_code
            self._cell = cell if is_code else None
            number = self._client.code_cells_executed + 1
            await self._client.async_execute_cell(cell, place, execution_count=number)
            self._done += is_code
        self._cell = None
        self._client.set_widgets_metadata()
        return Outcome(not self._is_stopping, choice.note)

    async def _read_language(self) -> None:
        """Set the notebook's `language_info`, by which Jupyter colours its cells."""
        assert self._client is not None
        assert self._client.kc is not None
        assert self._notebook is not None
        reply = await self._client.async_wait_for_reply(self._client.kc.kernel_info())
        if reply is not None:
            self._notebook.metadata["language_info"] = reply["content"].get("language_info", {})

    def _now(self, total: int) -> str:
        """Which cell runs, in words."""
        if self._cell is None:
            return ""
        first = next(iter(self._cell.source.strip().splitlines()), "")
        return in_words(f"cell {self._begun} of {total}: {in_words(first, MAX_SHOWN_SOURCE)}")

    def _at_cell(self, what: str) -> str:
        return in_words(f"cell {self._begun}: {what}" if self._begun else what)
